# SPDX-License-Identifier: Apache-2.0
"""One rank of horovod.run(): calls the function, and leaves what it returns in a file named by the rank."""

import pickle
import sys
from pathlib import Path

from horovod.runner import _pickler
from horovod.runner.common.util.env import get_env_rank_and_size


def main() -> None:
    """The folder is the only argument."""
    folder = Path(sys.argv[1])
    func, args, kwargs = pickle.loads((folder / "call").read_bytes())
    result = func(*args, **kwargs)
    (folder / str(get_env_rank_and_size()[0])).write_bytes(_pickler.dumps(result))


if __name__ == "__main__":
    main()
