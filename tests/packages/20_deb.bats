#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages, as a site has them: installed, upgraded, removed. 10_modules.bats has unpacked the module systems.
#
# shellcheck disable=SC2016 # what is in single quotes is for shells in the cluster
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers

conf=/etc/slurm/plugstack.conf.d/horovod.conf
debs() { find "$packages/deb" -name '*.deb' ! -name '*-dbgsym_*'; }
plugin=$(debs | sed -nE 's|.*/(spank-horovod-[^_]*)_.*|\1|p')

setup_file() {
  mapfile -t files < <(debs)
  dpkg -i "${files[@]}" >&2 && site_plugstack && cluster_up >&2
}

teardown_file() { "$cluster" down; }

@test "the plugin's package names the release of Slurm, and fits no other" {
  run -0 on_cluster srun --version
  release=$(sed -E 's/^slurm-wlm ([0-9]+\.[0-9]+)\..*/\1/' <<<"$output")
  [ "$plugin" = "spank-horovod-slurm$release" ]
  run -0 dpkg-query -W -f '${Depends}' "$plugin"
  [[ $output == *"slurm-wlm-basic-plugins (>= $release)"* ]]
  [[ $output == *"slurm-wlm-basic-plugins (<< ${release%.*}."* ]]
}

@test "debian/control is what control.in makes, and the version is the sources'" {
  [ "$plugin" != spank-horovod-slurm22.05 ] || cmp "$packages/deb/slurm-horovod/debian/control" "$HVD_ROOT/debian/control"
  run -0 dpkg-query -W -f '${Version}' libhvd0
  [ "${output%-*}" = "$(hvd-info --version)" ]
}

@test "installed, srun --horovod works by nothing but the option" {
  grep -q '^optional /usr/lib/.*/slurm-wlm/spank_horovod.so' "$conf"
  four_ranks_reduce
}

@test "tasks find the Python package, other programs do not" {
  run -0 on_cluster srun --horovod -N2 /usr/bin/python3 -c 'import horovod.common._library as l; print(l.__file__)'
  [ "$output" = "$(printf '%s\n' {,}/usr/share/horovod/python/horovod/common/_library.py)" ]
  run -0 on_cluster /usr/bin/python3 -c 'import importlib.util; print(importlib.util.find_spec("horovod"))'
  [ "$output" = None ]
  run -0 on_cluster horovodrun --version
}

@test "a C program builds and runs" {
  cd "$BATS_TEST_TMPDIR"
  printf '%s\n' '#include <hvd.h>' 'int main(void) { return hvd_init() != HVD_OK || hvd_size() != 1; }' >program.c
  # shellcheck disable=SC2046 # flags are words
  cc -o program program.c $(pkg-config --cflags --libs hvd)
  run -0 ./program
}

@test "module load horovod finds the package's modulefile, and leaves PATH alone" {
  for init in "${module_systems[@]}"; do
    run with_modules "$init" 'before=$PATH; module load horovod && echo "$PYTHONPATH" && [[ $PATH == "$before" ]]'
    echo "$init: $output"
    [ "$output" = /usr/share/horovod/python ]
  done
}

@test "an upgrade keeps what the site has written in the line" {
  sed -i '/^optional/s/$/ peer-timeout=30s/' "$conf"
  mapfile -t files < <(debs)
  dpkg -i "${files[@]}" >&2
  grep -q 'peer-timeout=30s$' "$conf"
  four_ranks_reduce
}

@test "without the plugin's file, its line hurts no step" {
  mv /usr/lib/*/slurm-wlm/spank_horovod.so "$BATS_TEST_TMPDIR"
  run -0 on_cluster srun -N2 echo runs
  [[ $output == *runs*runs* ]]
  assert_no_drain
  mv "$BATS_TEST_TMPDIR/spank_horovod.so" "$(dirname /usr/lib/*/slurm-wlm/spank_pbs.so)"
}

@test "removed, srun works and says nothing, and slurmd starts" {
  dpkg -r "$plugin" >&2
  run -0 --separate-stderr on_cluster srun -N2 echo runs
  [ "$output" = $'runs\nruns' ]
  [ -z "$stderr" ]
  run ! on_cluster srun --horovod -N2 true
  [[ $output == *"unrecognized option '--horovod'"* ]]
  "$cluster" down
  cluster_up >&2
  run -0 --separate-stderr on_cluster srun -N2 echo runs
  [ -z "$stderr" ]
}

@test "installed again, it has the site's line" {
  dpkg -i "$(debs | grep "/${plugin}_")" >&2
  grep -q 'peer-timeout=30s$' "$conf"
  four_ranks_reduce
}

@test "purged, nothing is left" {
  mapfile -t names < <(debs | sed 's|.*/||; s|_.*||')
  dpkg -P "${names[@]}" >&2
  run -0 find / -xdev ! -path "$HVD_BUILD/*" ! -path "$HVD_ROOT/*" \
    \( -path '/etc/*horovod*' -o -path '/usr/*horovod*' -o -path '/usr/*libhvd*' -o -path '/usr/*hvd.h' \) \
    ! -path '/usr/local/*' ! -path '/usr/src/*'
  [ -z "$output" ]
}
