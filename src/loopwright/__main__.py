"""`python -m loopwright` is the command `loopwright`.

Owns: nothing. Must not know: any command.
Read next: `cli/main.py`.
"""

from .cli.main import main

if __name__ == "__main__":
    main()
