"""What scripts that start the program do to its arguments."""


def once(arguments):
    """The last of the options of one name alone: given twice they would contradict each other."""
    last = {str(word).partition("=")[0]: i for i, word in enumerate(arguments)}
    return [word for i, word in enumerate(arguments)
            if not str(word).startswith("--") or last[str(word).partition("=")[0]] == i]
