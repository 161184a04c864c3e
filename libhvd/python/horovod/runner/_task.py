# SPDX-License-Identifier: Apache-2.0
"""One rank of horovod.run(): calls the function, and leaves what it returns in a file named by the rank."""

import os
import pickle
import runpy
import sys
import types
from pathlib import Path

from horovod.runner import _pickler
from horovod.runner.common.util.env import get_env_rank_and_size


def _import_as_main(script: str) -> None:
    """Plain pickle names a function by its module and does not send it, so the program has to be here as __main__;
    under another name, as multiprocessing has it, for what stands below if __name__ == "__main__" not to run."""
    module = types.ModuleType("__mp_main__")
    module.__dict__.update(runpy.run_path(script, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def main() -> None:
    """The folder is the only argument."""
    folder = Path(sys.argv[1])
    call, script = (folder / "call").read_bytes(), (folder / "main").read_text(encoding="utf-8")
    if _pickler is pickle and b"__main__" in call and os.path.isfile(script):
        _import_as_main(script)
    func, args, kwargs = pickle.loads(call)
    result = func(*args, **kwargs)
    (folder / str(get_env_rank_and_size()[0])).write_bytes(_pickler.dumps(result))


if __name__ == "__main__":
    main()
