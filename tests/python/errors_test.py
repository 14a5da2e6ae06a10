"""Bad input is a ValueError with the program's one line."""

import engram


def test_tasks_are_listed_in_the_programs_order():
    names = engram.task_names()
    assert names[0] == "visual_match" and "tmaze" in names and len(names) == len(set(names))
