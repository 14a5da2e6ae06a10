"""Runs the program on pseudo-terminals and reads what would stand on the screen: a progress line is overwritten, never
left behind, whatever the width and however it changes; help fits.  usage: pseudo_terminal.py ENGRAM"""

import os
import re
import signal

from program import OnTerminal, comparison, scratch_folder, tiny, with_changes

# Of train's and compare's live line alone; lines that stay hold none of it.
LIVE = re.compile(r"^\[[#.]+\] |^ *\d+%(  |$)|\bleft(  |$)|evaluated \d+%|steps/s|updates/s|\d runs finished")


class Screen:
    """A terminal without an end at the bottom. `reflow`: lines that do not fit any more wrap when it gets narrower, as
    most terminals have it; else they are cut, as in xterm."""

    def __init__(self, columns, reflow):
        self.columns, self.reflow = columns, reflow
        self.rows, self.wrapped = [""], [False]  # wrapped: goes on in the next row
        self.row = self.column = 0
        self.pending = ""  # the beginning of an escape sequence

    def resize(self, columns):
        if not self.reflow:
            self.rows = [row[:columns] for row in self.rows]
            self.column = min(self.column, columns - 1)
        else:
            rows, wrapped, cursor, at = [], [], None, 0
            while at < len(self.rows):
                line, first = self.rows[at], at
                while self.wrapped[at]:
                    at += 1
                    line += self.rows[at]
                offset = None
                if first <= self.row <= at:
                    offset = sum(len(row) for row in self.rows[first:self.row]) + self.column
                pieces = [line[i:i + columns] for i in range(0, len(line), columns)] or [""]
                if offset is not None:
                    cursor = (len(rows) + min(offset // columns, len(pieces) - 1), offset % columns)
                rows += pieces
                wrapped += [True] * (len(pieces) - 1) + [False]
                at += 1
            self.rows, self.wrapped, (self.row, self.column) = rows, wrapped, cursor
        self.columns = columns

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\033":
                match = re.compile(r"\033\[[0-9;?]*[A-Za-z]").match(text, at)
                if not match:
                    assert len(text) - at < 10, f"not an escape sequence: {text[at:at + 20]!r}"
                    self.pending = text[at:]
                    return
                assert match[0] in ("\033[K", "\033[J"), match[0]
                self.rows[self.row] = self.rows[self.row][:self.column]
                self.wrapped[self.row] = False
                if match[0] == "\033[J":
                    del self.rows[self.row + 1:], self.wrapped[self.row + 1:]
                at = match.end()
                continue
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.next_row()
            else:
                if self.column == self.columns:
                    self.wrapped[self.row] = True
                    self.next_row()
                    self.column = 0
                row = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = row[:self.column] + character + row[self.column + 1:]
                self.column += 1
            at += 1

    def next_row(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
            self.wrapped.append(False)


class Program(OnTerminal):
    """A program with the screen that it writes to."""

    def __init__(self, arguments, columns, reflow=True, term="xterm"):
        self.screen = Screen(columns, reflow)
        super().__init__(*arguments, columns=columns, TERM=term)

    def read(self, seconds):
        text = super().read(seconds)
        self.screen.feed(text)
        return text

    def resize(self, columns):
        """While the program stands still and all that it wrote is on the screen, as it is between two of its lines."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)
        while self.read(0.1):
            pass
        self.set_size(columns)
        self.screen.resize(columns)
        self.process.send_signal(signal.SIGCONT)

    def finish(self, status=0):
        super().finish(status)
        return self.screen.rows


def live_rows(rows):
    return [row for row in rows if LIVE.search(row)]


TINY = tiny("--task.corridor_length=9", "--memory.width=12", "--run.random_episodes=4", "--replay.batch_episodes=4",
            "--evaluation.every_steps=400", "--evaluation.episodes=4", "--evaluation.final_episodes=4",
            "--run.report_seconds=0.02")


def train(run, steps):
    return ["train", run, *with_changes(TINY, f"--run.steps={steps}")]


def check_train(columns):
    program = Program(train(f"t{columns}", 1200), columns)
    rows = program.finish()
    lines = [line for line in re.split(r"[\r\n]|\033\[J", program.raw) if line]
    assert len([line for line in lines if LIVE.search(line)]) >= 3, program.raw  # it was there
    assert max(map(len, lines)) < columns or columns < 60, lines  # what stays when all is over may be long
    assert not live_rows(rows), rows
    assert any("Finished after" in row for row in rows) and any("(best)" in row for row in rows), rows


def check_resize(reflow):
    program = Program(train(f"r{reflow}", 1000000), 120, reflow)
    live = r"\d+%[^\r\n]*left[^\r\n]*\r"
    program.wait_for(live)
    for columns in (80, 40, 100, 30, 60, 24, 120, 40):
        program.resize(columns)
        program.wait_for(live + r"[^\r\n]*\r[^\r\n]*\r")  # some were written with the new width
        assert len(live_rows(program.screen.rows)) <= 1, (columns, program.screen.rows)
        shown = re.findall(r"\r([^\r\n\033]+)\033\[J\r", program.raw)[-1]
        assert len(shown) < columns and "left" in shown, (columns, shown)
        if columns <= 60 or columns == 120:
            assert ("steps/s" in shown) == (columns == 120), (columns, shown)
    program.process.send_signal(signal.SIGINT)
    rows = program.finish(130)
    assert not live_rows(rows), rows
    assert "stopped on request" in re.sub(r"\s+", " ", " ".join(rows)), rows


def check_compare(folder):
    text = comparison("--compare.question=Which of them remembers?", "--compare.seeds=0-1",
                      *with_changes(TINY, "--run.steps=1500", "--run.report_seconds=0.05"),
                      tasks={"a_corridor_with_quite_a_long_name": 9}, backbones=("lstm", "none"))
    (folder / "c.ini").write_text(text.replace("[backbones.lstm]", "[backbones.a_backbone_with_quite_a_long_name]"))
    program = Program(["compare", "--config=c.ini", "--run=c", "--jobs=2", "--device=cpu"], 80)
    program.wait_for(r"runs finished[^\n]*\r")
    assert len(live_rows(program.screen.rows)) == 1, program.screen.rows
    program.resize(40)
    program.wait_for(r"\d+%[^\n]*\r")
    assert len(live_rows(program.screen.rows)) <= 1, program.screen.rows
    narrow = len(program.raw)
    rows = program.finish()
    assert not live_rows(rows), rows
    lines = [line for line in re.split(r"[\r\n]|\033\[J", program.raw[narrow:]) if line]
    assert max(len(line) for line in lines if not line.startswith("All ")) < 40, lines
    text = re.sub(r"\s+", "", "".join(rows))
    assert text.count(":success") == 6, rows  # with the control full_state
    assert "a_corridor_with_quite_a_long_name/a_backbone_with_quite_a_long_name/1:success" in text, rows


def check_plain():
    program = Program(train("dumb", 800), 80, term="dumb")
    program.finish()
    assert "\033" not in program.raw and "\r\n" in program.raw, program.raw
    assert not re.search(r"\r[^\n]", program.raw), program.raw


COMMANDS = [["--help"], ["list"], ["list", "hqlt"], ["list", "visual_match"], ["list", "tmaze_active_50"],
            *([name, "--help"] for name in ("train", "evaluate", "diagnose", "compare", "sweep", "inspect", "list",
                                            "play", "probe", "replay", "bench", "completion")),
            ["bench", "env", "--help"], ["compare", "report", "--help"]]


def check_help():
    for columns in (60, 80, 120, 300):
        for arguments in COMMANDS:
            program = Program(arguments, columns)
            program.finish()
            lines = program.raw.replace("\r\n", "\n").split("\n")
            # Tables and commands to be copied, which begin with blanks, are made for 80 columns.
            fixed = re.compile(r" +(\S+ \[.*\] |.*engram |--|source )|name |[a-z_0-9+]+ +\d|BACKBONES|TASKS")
            for line in lines:
                assert len(line) < columns or (columns <= 80 and fixed.match(line) and len(line) <= 80), (columns, line)
                assert len(line) <= 120, line
            if arguments[0] == "train":
                assert max(map(len, lines)) > min(columns, 120) - 10, (columns, lines)  # the width is made use of
            if arguments == ["list"] and columns >= 80:
                first = next(i for i, line in enumerate(lines) if line.startswith("TASKS"))
                rows = lines[first + 2:lines.index("", first)]
                assert len(rows) >= 7 and all(re.match(r"\S+ +[\d.]+[kM]? ", row) for row in rows), lines  # a line each


folder = scratch_folder()
check_help()
check_plain()
for columns in (80, 40):
    check_train(columns)
check_resize(True)
check_resize(False)
check_compare(folder)
