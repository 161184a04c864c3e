# SPDX-License-Identifier: Apache-2.0
"""A recipe for Spack: copy it to packages/slurm-horovod/package.py of a repository of yours (spack repo create).

Written from Spack's documentation and compiled as Python by the tests; no Spack has built it yet.

The plugin is good for the release of Slurm it is compiled for, which is the one that runs on the site, and not one of
Spack's: make it an external in packages.yaml.

    packages:
      slurm:
        buildable: false
        externals:
        - spec: slurm@23.11.10
          prefix: /usr
"""

from spack.package import *


class SlurmHorovod(AutotoolsPackage):
    """srun --horovod: distributed training on Slurm as one word; libhvd, and a drop-in for Horovod's Python package."""

    homepage = "https://example.org/slurm-horovod"
    git = "https://example.org/slurm-horovod.git"
    license("Apache-2.0")

    version("main", branch="main")

    variant("plugin", default=True, description="Build the SPANK plugin for the Slurm of the site")
    variant("mpi", default=True, description="Move data between nodes with MPI")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("pmix@3.2:5")
    depends_on("hwloc@2:")
    depends_on("mpi", when="+mpi")
    depends_on("slurm@22.05:", when="+plugin")
    # The package is plain Python, and any PyTorch from 1.13 on serves: the environment chooses it.
    depends_on("python@3.9:", type="run")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        spec = self.spec
        return [
            "--without-cuda",
            f"--with-pmix={spec['pmix'].prefix}",
            f"--with-hwloc={spec['hwloc'].prefix}",
            f"--with-mpi={spec['mpi'].prefix}" if "+mpi" in spec else "--without-mpi",
            f"--with-slurm={spec['slurm'].prefix}" if "+plugin" in spec else "--without-slurm",
        ]

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", self.prefix.lib.horovod.python)
