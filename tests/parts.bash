# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# The parts of tests/run.sh, which has the table of them, counts what they find, and cleans up: part_NAME is run for the
# row NAME. What they share is below them. Sourced by run.sh alone; reads its variables.
#
# shellcheck disable=SC2317 # what looks unreachable is called by its name in the table
# shellcheck disable=SC2154 # variables of run.sh

# ---- the parts ----------------------------------------------------------------------------------

part_install() {
  local groups=(build test cluster python)
  [[ $mode != build ]] || groups=(build)
  check 'the packages that are needed are there' build-aux/install-deps "${groups[@]}"
}

# nvcc takes seconds for each kind of GPU: here it has one, in part dist all.
one_gpu=--with-cuda-arch=newest

part_build() {
  configure_in "$build" --enable-werror "$one_gpu" --prefix="$prefix" --sysconfdir="$prefix/etc" || return
  check 'everything builds without a warning' make -C "$build" -j "$jobs" CXXFLAGS=-g1 programs || return
  if grep -q '^#define HVD_HAVE_PACK_MODULE' "$build/config.h"; then
    check 'GPU kernels spill no register and need no stack' kernels_spill_nothing
  else
    count_skip 'GPU kernels spill no register and need no stack' 'no nvcc'
  fi
  check 'everything installs' make -C "$build" install || return
  tap make -s -C "$build" installcheck
  check 'configure refuses sanitizers that are none, or exclude each other' configure_refuses_sanitizers
}

part_format() {
  check 'C and C++ are formatted' formatted
  check 'scripts are shellcheck-clean' shellchecked
  check 'every source names its licence' licensed
  check 'manual pages are clean' manuals_are_clean
  tap python3 tests/manual.py "$build/man/horovod.7"
}

part_includes() { tap python3 tests/includes.py; }

# Most of the time of these parts is the compiler's: test programs are hardly optimised, and know lines alone. While the
# unit tests run, which takes one CPU, the programs of the parts to come are compiled.
quick_tests=(CXXFLAGS=-g1 HVD_OPT=-O1 HVD_TEST_OPT=-O1)

part_unit() {
  local ahead
  build_unit_tests "$build" "${quick_tests[@]}" || return
  make -C "$build" "${quick_tests[@]}" test-programs >"$logs/ahead.log" 2>&1 </dev/null &
  ahead=$!
  run_unit_tests "$build"
  wait "$ahead" # what did not compile is told by the next part
}

# All of the library by the operations of one test: what a change breaks is seen here before --all sees it.
part_asan() {
  configure_asan || return
  check 'the library and its test build with the sanitizers' \
    make -C "$build/asan" -j "$jobs" "${quickly[@]}" libhvd/libhvd.la tests/ranks/mix || return
  sanitized "${mpirun_environment[@]}" bats --tap --timing "$root/tests/ranks/72_mix.bats"
}

part_asan-unit() {
  configure_asan && build_unit_tests "$build/asan" "${quickly[@]}" &&
    ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run_unit_tests "$build/asan"
}

part_asan-ranks() {
  leaks=0
  make_asan && sanitized "${mpirun_environment[@]}" HVD_PREFIX="$build/asan/prefix" \
    bats --tap --timing "${not_long[@]}" tests/ranks/*.bats
}

# The plugin is the ordinary one: a sanitizer would have to be preloaded into srun and slurmd.
part_asan-cluster() {
  local files
  mapfile -t files < <(grep -l tests/ranks/worker tests/cluster/*.bats)
  leaks=0
  make_asan && need_cluster && sanitized bats --tap --timing "${files[@]}"
}

# setarch -R: this sanitizer of gcc 12 ends at once where addresses are random by more than 28 bits (Linux 6.5 and later).
part_tsan() {
  local program=$build/tsan/tests/unit/unit fixed=(setarch "$(uname -m)" -R)
  "${fixed[@]}" true 2>/dev/null || fixed=()
  configure_in "$build/tsan" --enable-werror "$one_gpu" --enable-sanitizer=thread CFLAGS='-g1 -O1' CXXFLAGS=-g1 || return
  check 'the unit tests build with ThreadSanitizer' make -C "$build/tsan" -j "$jobs" "${quickly[@]}" tests/unit/unit || return
  TSAN_OPTIONS=halt_on_error=1 catch "${fixed[@]}" "$program" '[ranks-as-threads]'
}

# Those of the pure rooms. [slow]: many threads, which take turns here; minutes.
part_valgrind() {
  local memcheck=(valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite)
  check 'valgrind is there' build-aux/install-deps valgrind || return
  check 'the programs of the tests build' make -C "$build" -j "$jobs" test-programs || return
  catch "${memcheck[@]}" "$build/tests/unit/unit" -# \
    '[base]~[slow],[#json_test],[#record_test],[#layout_test],[#control_test],[#plan_test]~[slow],[#kernels_test],[#launch_test]'
  check 'a job of one rank is clean under memcheck' \
    "$build/libtool" --mode=execute "${memcheck[@]}" "$build/tests/ranks/worker" place sum cycles
}

part_ranks() {
  local which=("${not_long[@]}")
  [[ $mode != all ]] || which=()
  check 'the programs of the tests build' \
    make -C "$build" -j "$jobs" "${quick_tests[@]}" test-programs || return
  tap env "${mpirun_environment[@]}" bats --tap --timing "${which[@]}" tests/ranks/*.bats
}

# horovodrun is one process; of the rest every rank runs the whole suite, on three layouts of nodes.
part_python() {
  check 'PyTorch and pytest are there' build-aux/install-deps python || return
  tap /usr/bin/python3 -B -m pytest -p no:terminal -p no:cacheprovider tests/horovodrun
  need_cluster || return
  tap tests/python/ranks srun 2 2
  [[ $mode == all ]] || return 0
  tap tests/python/ranks srun 1 2
  tap tests/python/ranks srun 4 1
}

part_bench() {
  need_cluster && check 'a step from Python takes at most 1.3 times that from C, and who waits takes no core' \
    tests/python/bench
}

part_cluster() {
  check 'PyTorch, torchvision and data to learn from are there' build-aux/install-deps python example || return
  local which=("${not_long[@]}")
  [[ $mode != all ]] || which=()
  need_cluster && tap bats --tap --timing "${which[@]}" tests/cluster/*.bats
}

part_faults() {
  need_cluster && tap bats --tap --timing tests/faults/*.bats
}

part_fuzz() {
  check 'clang is there' build-aux/install-deps clang &&
    check 'no fuzz target finds anything in two seconds' env HVD_BUILD="$build" tests/fuzz/run 2
}

# A row: name, then what configure is told.
part_variants() {
  local name arguments
  check 'clang is there' build-aux/install-deps clang || return
  while read -r -u 4 name arguments; do
    # shellcheck disable=SC2086 # arguments are words
    configure_in "$build/variants/$name" --enable-werror "$one_gpu" CXXFLAGS=-O0 $arguments || continue
    check "without a warning: $name" make -C "$build/variants/$name" -j "$jobs" programs
  done 4<<'END'
no-mpi --without-mpi
no-slurm --without-slurm --without-hwloc
bare --without-slurm --without-pmix --without-mpi --without-hwloc --without-cuda
clang CC=clang CXX=clang++
END
}

# What is installed here is so in a copy of the file system that goes away. Not optimised: it is about files.
part_packages() {
  local at=$build/packages
  if [[ $EUID != 0 ]]; then
    count_skip packages 'not root'
    return
  fi
  check 'what packages are made with is there' build-aux/install-deps packages || return
  rm -rf "$at"
  check 'Debian packages build from a fresh checkout' debs_build "$at/deb" || return
  check 'lintian finds no error in them' lintian --allow-root --fail-on error "$at"/deb/*.changes
  check 'the recipe for Spack is Python' python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' \
    examples/spack/package.py
  tap env HVD_CLUSTER_DIR="$HVD_CLUSTER_DIR-packages" tests/packages/overlay bats --tap tests/packages/*.bats
}

# Not optimised: it is about files, and the tests are run elsewhere.
part_dist() {
  local below=$build/dist/below elsewhere
  elsewhere=(DESTDIR="$below" prefix=/opt/hvd sysconfdir=/etc)
  configure_in "$build/dist" || return
  check 'a tarball builds, checks, installs and uninstalls itself' make -C "$build/dist" -j "$jobs" distcheck \
    DISTCHECK_CONFIGURE_FLAGS='CFLAGS=-O0 CXXFLAGS=-O0' || return
  if [[ -e $root/.git ]]; then
    check 'the tarball has every file of the repository' tarball_is_complete
  else
    count_skip 'the tarball has every file of the repository' 'not a git checkout'
  fi
  rm -rf "$below"
  check 'everything installs below DESTDIR, for another prefix' make -C "$build" install "${elsewhere[@]}" || return
  tap make -s -C "$build" installcheck "${elsewhere[@]}"
  check 'uninstalling leaves no file' uninstalls_from "$below" "${elsewhere[@]}"
  check 'the build is for its own prefix again' make -C "$build" install
}

# ---- what the parts are made of -----------------------------------------------------------------

# configure_in DIR ARGUMENT...: only if it is not configured like that already.
configure_in() {
  local dir=$1 arguments
  shift
  arguments=$(printf '%q ' "$@")
  mkdir -p "$dir"
  if [[ ! -e $root/configure ]]; then
    check 'autogen.sh makes configure' "$root/autogen.sh" || return
  fi
  if [[ -e $dir/config.status && $(cat "$dir/arguments" 2>/dev/null) == "$arguments" ]]; then
    return
  fi
  rm -f "$dir/arguments"
  check "configure in ${dir#"$root/"}" env -C "$dir" "$root/configure" "$@" &&
    printf '%s\n' "$arguments" >"$dir/arguments"
}

# By what ptxas said when they were compiled, of each kernel once.
kernels_spill_nothing() {
  local said=$build/libhvd/transport/gpu/pack_kernels.ptxas kernels
  kernels=$(grep -c 'Compiling entry function' "$said")
  echo "$kernels kernels"
  [[ $kernels -gt 0 && $(grep -c 'spill' "$said") == "$kernels" ]] &&
    ! grep 'spill' "$said" | grep -v ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
}

# A row: the list, then what configure says to it.
configure_refuses_sanitizers() {
  local list text said
  while read -r list text; do
    said=$(cd "$logs" && "$root/configure" --no-create "--enable-sanitizer=$list" 2>&1) &&
      echo "$list is accepted" && return 1
    grep -F -- "$text" <<<"$said" || { printf '%s says:\n%s\n' "$list" "$said" && return 1; }
  done <<'END'
adress "adress" is none of address, thread, undefined
undefined,memory "memory" is none of address, thread, undefined
address,thread address and thread exclude each other
thread,undefined,address address and thread exclude each other
yes --enable-sanitizer needs a list, such as address,undefined
END
}

# Tests that take long or much memory have a tag, and are for --all.
not_long=(--filter-tags '!long')

# Optimising the tests themselves with sanitizers took three times as long and shows nothing more.
quickly=(HVD_OPT=-O1 HVD_TEST_OPT=-O0)

configure_asan() {
  configure_in "$build/asan" --enable-werror "$one_gpu" --prefix="$build/asan/prefix" --sysconfdir="$build/asan/prefix/etc" \
    --enable-sanitizer=address,undefined CFLAGS='-g1 -O1' CXXFLAGS=-g1
}

make_asan() {
  configure_asan || return
  check 'everything builds with AddressSanitizer and UBSan' \
    make -C "$build/asan" -j "$jobs" "${quickly[@]}" programs || return
  check 'so do the programs whose ranks are started' \
    make -C "$build/asan" -j "$jobs" "${quickly[@]}" rank-programs || return
  check 'and installs' make -C "$build/asan" "${quickly[@]}" install
}

# sanitized COMMAND...: tests that start programs of build/asan. What a sanitizer reports fails the run even if a test
# overlooks it, as one may that expects the program to fail.
#
# Open MPI unloads its components at the end; a leak whose code is gone cannot be told from one of ours. So nothing is
# unloaded, and stacks are followed with care where malloc is called by a library without frame pointers.
#
# leaks=0: not looked for. The search breaks down in 1 of 100 processes with threads that end ("Tracer caught signal 11"),
# too often for hundreds of them; the part asan looks in all kinds of operations, and tries again.
leaks=1
sanitized() {
  local reports=$build/asan/reports-$part stay=$build/asan/stay.so
  rm -rf "$reports"
  mkdir -m 1777 "$reports" # programs of the cluster's users write there
  check 'a library that keeps others loaded builds' stay_loaded_library "$stay" || return
  tap env HVD_BUILD="$build/asan" HVD_ROUNDS=100 HVD_REPORTS="$reports" RANKS_SECONDS=240 LD_PRELOAD="$stay" \
    ASAN_OPTIONS="detect_leaks=$leaks:fast_unwind_on_malloc=0:verify_asan_link_order=0:log_path=$reports/report" \
    UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:log_path=$reports/report" \
    LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0" "$@"
  check 'no sanitizer has anything to report' no_report_in "$reports"
}

stay_loaded_library() {
  local compiler
  read -ra compiler <<<"${CC:-gcc}"
  "${compiler[@]}" -shared -fPIC -o "$1" -x c - <<<'int dlclose(void *library) { return library == 0; }'
}

# Of a process that was forked from one with threads a sanitizer also says that it could not stop them: no error.
no_report_in() {
  local report none=0
  while read -r report; do
    head -n 60 "$report"
    none=1
  done < <(grep -lrE 'ERROR: |runtime error: ' "$1")
  return "$none"
}

# debs_build DIR: from the files that a checkout has, and no other.
debs_build() {
  mkdir -p "$1/slurm-horovod" && tracked | tar -cT - | tar -x -C "$1/slurm-horovod" || return
  DEB_BUILD_OPTIONS="noopt parallel=$jobs" env -C "$1/slurm-horovod" dpkg-buildpackage -us -uc -b
}

# The tarball lacks nothing of the repository but what only git reads.
tarball_is_complete() {
  local missing
  missing=$(comm -23 <(git -C "$root" ls-files | sort) \
    <(tar -tf "$build"/dist/slurm-horovod-*.tar.xz | sed 's|^[^/]*/||' | sort) | grep -vx '\.gitignore')
  printf '%s\n' "$missing"
  [[ -z $missing ]]
}

# uninstalls_from DIRECTORY VARIABLE=VALUE...: of make.
uninstalls_from() {
  local from=$1
  shift
  make -C "$build" uninstall "$@" && [[ -z $(find "$from" ! -type d | tee /dev/stderr) ]]
}

# tracked PATTERN...: files of the repository, or of the tarball, that are there.
tracked() {
  local file
  if [[ -e $root/.git ]]; then
    git -C "$root" ls-files --cached -- "$@"
  else
    unpacked "$@"
  fi | while read -r file; do
    [[ ! -f $file ]] || printf '%s\n' "$file"
  done
}

# unpacked PATTERN...: without what autogen.sh, configure and make have made.
unpacked() {
  local file pattern
  [[ $# -gt 0 ]] || set -- '*'
  find . -path "./${build#"$root/"}" -prune -o -type f -printf '%P\n' | sort | while read -r file; do
    case $file in
      configure | config.* | aclocal.m4 | autom4te.cache/* | m4/l*.m4 | Makefile | Makefile.in | libtool) continue ;;
      build-aux/*) [[ $file == build-aux/install-deps || $file == build-aux/*.bash ]] || continue ;;
    esac
    for pattern; do
      # shellcheck disable=SC2053 # a pattern
      [[ $file != $pattern ]] || { printf '%s\n' "$file" && break; }
    done
  done
}

scripts() {
  local file
  tracked | while read -r file; do
    if [[ $file == *.sh || $file == *.bash || $file == *.bats ]] ||
      head -n 1 "$file" | grep -qaE '^#!.*\b(bash|sh|bats)\b'; then
      printf '%s\n' "$file"
    fi
  done
}

formatted() {
  clang-format --version
  tracked '*.c' '*.cc' '*.cu' '*.h' | xargs -r clang-format --dry-run -Werror
}

shellchecked() { scripts | xargs -r shellcheck --external-sources; }

licensed() {
  local file bad=0
  while read -r file; do
    if ! head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
      echo "$file does not say SPDX-License-Identifier: Apache-2.0 in its first lines"
      bad=1
    fi
  done < <(tracked '*.c' '*.cc' '*.cu' '*.h' '*.S' '*.def' '*.py' '*.mk' '*.m4' '*.am' '*.ac' && scripts)
  return "$bad"
}

manuals_are_clean() {
  local page warnings bad=0
  while read -r page; do
    mandoc -T lint -W warning "$page" || bad=1
    warnings=$(groff -ww -mdoc -T utf8 "$page" 2>&1 >/dev/null)
    [[ -z $warnings ]] || { echo "$warnings" && bad=1; }
  done < <(tracked 'man/*.[1-8]' && printf '%s\n' "$build"/man/{horovod.7,spank_horovod.8})
  return "$bad"
}

# build_unit_tests DIR VARIABLE=VALUE..., run_unit_tests DIR: what `make check` runs there; the variables are make's.
build_unit_tests() {
  local dir=$1
  shift
  check "the unit tests build in ${dir#"$root/"}" make -C "$dir" -j "$jobs" "$@" unit-tests
}

run_unit_tests() {
  local dir=$1 program
  for program in $(make -s -C "$dir" list-unit-tests | sed -n 's/^unit-tests: //p'); do
    if [[ $program == */unit ]]; then
      catch "$dir/$program"
      [[ $mode != all ]] || catch "$dir/$program" '[long]'
    else
      check "$program" "$dir/$program"
    fi
  done
}

need_cluster() {
  if [[ $EUID != 0 ]]; then
    count_skip "$part" 'not root'
    return 1
  fi
  [[ $cluster_up == no ]] || return 0
  check 'the programs of the tests build' make -C "$build" -j "$jobs" "${quick_tests[@]}" test-programs || return
  "$cluster" down >>"$logs/$part.log" 2>&1 # what a crashed run may have left
  cluster_up=yes
  check 'the cluster comes up' "$cluster" up --cores 1 --prefix "$prefix" --bind "$build"
}

cluster_down() {
  [[ $cluster_up == yes ]] || return 0
  cluster_up=no
  local dir
  for dir in "$HVD_CLUSTER_DIR" "$HVD_CLUSTER_DIR"-*; do # a test's own, if it was ended before its teardown
    [[ -d $dir ]] || continue
    HVD_CLUSTER_DIR=$dir "$cluster" down >"$logs/cluster-down.log" 2>&1 && continue
    cat "$logs/cluster-down.log"
    count_fail 'the cluster goes down'
  done
}

# mpirun on a small machine, as root: more ranks than cores, nobody bound, nobody spinning.
mpirun_environment=(
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
)
