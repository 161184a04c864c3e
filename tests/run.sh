#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The project's one test command: installs what is missing, builds in a directory of its own, runs every part of the
# table below, says what it found, and leaves nothing behind.
#
# A part is a row here and a function part_NAME in parts.bash that calls `check` (one command, one test), `tap` (a
# program that prints TAP) or `catch` (one of Catch2). A part over its budget has failed. A skip is counted only for a
# reason that `may_skip` knows.
#
# shellcheck disable=SC2317 # what looks unreachable is called by its name in the table
set -uo pipefail

# name      budget  when     what
parts='
  install      300  always   install what is missing
  build        480  always   configure, make, make install, make installcheck
  format        60  default  clang-format, shellcheck, licence lines, manual pages
  includes      10  default  dependencies point one way
  unit         300  default  unit tests
  ranks        320  default  ranks under mpirun
  python       240  default  the Python package, in jobs of the cluster
  cluster      520  default  jobs of a throwaway Slurm of four nodes
  faults       180  default  ranks that die
  bench        240  all      what Python costs over C, in a job of the cluster
  asan         480  all      random operations of ranks under AddressSanitizer and UBSan
  asan-unit    720  all      unit tests with these sanitizers
  asan-ranks   720  all      ranks under mpirun, programs and library with these sanitizers
  asan-cluster 600  all      jobs of the cluster with these sanitizers
  tsan         720  all      ranks as threads of one process under ThreadSanitizer
  valgrind     600  all      memcheck on unit tests and on a job of one rank
  fuzz         300  all      a moment of every fuzz target (tests/fuzz/run for more)
  variants     900  all      builds without what is optional, and with clang
  packages    1200  all      Debian packages built, installed, removed; modules
  dist         900  all      a complete tarball that builds, checks, installs and uninstalls itself
'

usage() {
  cat <<'END'
usage: tests/run.sh [--build-only | --all | --only PART] [--list] [--help]

--build-only  stop after building and installing into build/prefix
--all         also what takes longer than a coffee
--only PART   that part (and what it needs); may be repeated
--list        print the parts, their budgets and what they do

HVD_BUILD     directory to build in (build/ of the checkout)
HVD_SLOW      how many times the budgets a slow or shared machine may take (1)
END
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=build-aux/open-to-all.bash
. "$root/build-aux/open-to-all.bash"
# shellcheck source=tests/parts.bash
. "$root/tests/parts.bash"
build=${HVD_BUILD:-$root/build}
[[ $build == /* ]] || build=$PWD/$build
if [[ -z ${HVD_BUILD:-} && $EUID == 0 ]] && ! open_to_all "$root"; then
  build=/var/tmp/hvd-build-$(cksum <<<"$root" | cut -d ' ' -f 1)
  printf 'run.sh: other users cannot enter this checkout, so the build is in %s\n' "$build"
  if [[ -e $build && (! -O $build || -L $build) ]]; then
    printf 'run.sh: %s belongs to somebody else. Name another directory in HVD_BUILD\n' "$build" >&2
    exit 1
  fi
fi
prefix=$build/prefix
logs=$build/test-logs
jobs=$(nproc)
slow=${HVD_SLOW:-1}
passed=0 failed=0 skipped=0
part=start      # the part that runs
child=          # process id of the command that runs, if any
mode=default    # or build, all, only
limit=600       # seconds after which a hanging command is ended
cluster=$root/tests/cluster/cluster
cluster_up=no

# What the tests find in their environment. Several checkouts on one machine do not share a cluster.
export HVD_ROOT=$root HVD_BUILD=$build HVD_PREFIX=$prefix HVD_CLUSTER=$cluster
HVD_CLUSTER_DIR=/var/tmp/hvd-cluster-$(cksum <<<"$build" | cut -d ' ' -f 1)
HVD_RUN_ID=$$-$(date +%s) # marks every process of this run
export HVD_CLUSTER_DIR HVD_RUN_ID
export LC_ALL=C.UTF-8

main() {
  local only=() name budget when what
  while [[ $# -gt 0 ]]; do
    case $1 in
      --build-only) mode=build ;;
      --all) mode=all ;;
      --only)
        [[ -n $(row "${2:-}") ]] || die "--only: \"${2:-}\" is no part; --list prints them"
        mode=only
        only+=("$2")
        shift
        ;;
      --list) list && exit 0 ;;
      --help | -h) usage && exit 0 ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done

  mkdir -p "$logs"
  : >"$logs/failures"
  cd "$root" || exit 1
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap clean_up EXIT

  # Not a pipe: a part must count in this shell.
  while read -r -u 3 name budget when what; do
    [[ -n $name ]] || continue
    case $mode:$when in
      *:always | all:* | default:default) ;;
      only:*) [[ " ${only[*]} " == *" $name "* ]] || continue ;;
      *) continue ;;
    esac
    # Without its programs nothing else can be tested.
    run_part "$name" $((budget * slow)) "$what" || [[ $when != always ]] || break
  done 3<<<"$parts"

  cluster_down
  check_nothing_is_left
  repeat_failures
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [[ $failed == 0 && $passed -gt 0 ]]
  exit # and not back to this file, which may have changed meanwhile
}

row() { [[ -n $1 ]] && awk -v name="$1" '$1 == name' <<<"$parts"; }

list() {
  local name budget when what
  printf '%-12s %8s  %-8s %s\n' part 'budget' when what
  while read -r name budget when what; do
    [[ -z $name ]] || printf '%-12s %6d s  %-8s %s\n' "$name" "$budget" "$when" "$what"
  done <<<"$parts"
}

die() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

# ---- counting -----------------------------------------------------------------------------------

count_pass() { passed=$((passed + 1)) && printf 'ok - %s\n' "$1"; }
count_fail() {
  failed=$((failed + 1))
  printf 'not ok - %s\n' "$1" | tee -a "$logs/failures"
}

# What failed, once more before the closing line: between it and here stand a thousand lines of what did not.
repeat_failures() {
  [[ ! -s $logs/failures ]] || sed -e '1i == what failed' -e 's/^/  /' "$logs/failures"
}

# Reasons that are no fault of the machine's set-up. What install-deps can install has to be there.
may_skip() {
  case $1 in
    'no nvcc'* | 'no GPU'* | 'no device cgroups'* | 'clang-format is not 14'* | 'not a git checkout') true ;;
    'not root'*) [[ ${CI:-} != true ]] ;;
    *) false ;;
  esac
}

count_skip() {
  if may_skip "$2"; then
    skipped=$((skipped + 1))
    printf 'skipped - %s: %s\n' "$1" "$2"
  else
    count_fail "$1 was skipped: $2"
  fi
}

# bounded COMMAND...: runs it with no input and a deadline, so that a signal to us is handled at once.
bounded() {
  # A function of this file cannot be given to timeout(1); those take no time.
  if [[ $(type -t "$1") == function ]]; then
    "$@" </dev/null
    return
  fi
  timeout --kill-after=10 "$limit" "$@" </dev/null &
  child=$!
  wait "$child"
  local status=$?
  child=
  [[ $status != 124 && $status != 137 ]] || echo "run.sh: ended after $limit s: $*"
  return "$status"
}

# check NAME COMMAND...: one test; its output is shown if it fails.
check() {
  local name=$1 log=$logs/$part.log from
  shift
  from=$(($(wc -c <"$log") + 1))
  if bounded "$@" >>"$log" 2>&1; then
    count_pass "$name"
  else
    tail -c "+$from" "$log"
    count_fail "$name"
    return 1
  fi
}

# shown COMMAND...: output to the terminal while it runs, and to $output.
shown() {
  output=$logs/$part-$((++outputs)).out
  : >"$output"
  tail -n +1 -s 0.2 -f "$output" &
  local follower=$! status
  bounded "$@" >"$output" 2>&1
  status=$?
  sleep 0.4
  kill "$follower" && wait "$follower" 2>/dev/null
  return "$status"
}
outputs=0 output=

# tap COMMAND...: a program that prints TAP.
tap() {
  local status ok bad planned line name
  shown "$@"
  status=$?
  while IFS= read -r line; do
    name=${line%%#*}
    count_skip "${name#ok }" "$(sed -E 's/.*# *skip *//I' <<<"$line")"
  done < <(grep -iE '^ok .*# *skip' "$output")
  ok=$(grep -E '^ok ' "$output" | grep -civE '# *skip')
  bad=$(grep -cE '^not ok ' "$output")
  passed=$((passed + ok)) failed=$((failed + bad))
  awk '/^(not )?ok / {shown = /^not/ ? 25 : 0} shown-- > 0' "$output" >>"$logs/failures"
  planned=$(sed -nE 's/^1\.\.([0-9]+).*/\1/p' "$output" | head -n 1)
  [[ $(grep -cE '^(not )?ok ' "$output") == "${planned:-none}" ]] ||
    count_fail "${planned:-an unknown number of} tests were announced, others ran"
  [[ $status == 0 || $bad -gt 0 ]] || count_fail "$* ended with status $status"
}

# catch COMMAND...: a Catch2 binary; every test case is a test.
catch() {
  local status summary good bad
  shown "$@"
  status=$?
  summary=$(grep -E '^(All tests passed|test cases:)' "$output" | tail -n 1)
  case $summary in
    All*) good=$(sed -E 's/.* in ([0-9]+) test cases?\).*/\1/' <<<"$summary") bad=0 ;;
    *)
      good=$(sed -nE 's/.*\| *([0-9]+) passed.*/\1/p' <<<"$summary")
      bad=$(sed -nE 's/.*\| *([0-9]+) failed.*/\1/p' <<<"$summary")
      ;;
  esac
  passed=$((passed + ${good:-0})) failed=$((failed + ${bad:-0}))
  grep -A 12 'FAILED:' "$output" >>"$logs/failures"
  [[ -n $summary ]] || count_fail "${1##*/} printed no summary"
  [[ $status == 0 || ${bad:-0} -gt 0 ]] || count_fail "${1##*/} ended with status $status"
}

# run_part NAME BUDGET WHAT: false if a test of it failed.
run_part() {
  local budget=$2 start=$SECONDS before=$failed took status=0
  part=$1 limit=$((budget * 2)) outputs=0
  printf '== part %s: %s\n' "$part" "$3"
  : >"$logs/$part.log"
  "part_$part"
  took=$((SECONDS - start))
  printf '== part %s: %d s of %d s\n' "$part" "$took" "$budget"
  [[ $failed == "$before" ]] || status=1
  [[ $took -le $budget ]] || count_fail "part $part took longer than its budget"
  return "$status"
}

# ---- leaving nothing ----------------------------------------------------------------------------

clean_up() {
  if [[ -n $child ]] && kill "$child" 2>/dev/null; then
    wait "$child" 2>/dev/null # timeout(1) passes the signal on to its group
  fi
  cluster_down
  jobs -p | xargs -r kill 2>/dev/null
}

# Processes of this run, of its cluster, and what they may have left. Those that are just ending get a moment.
left() {
  local file pid
  for file in /proc/[0-9]*/environ; do
    pid=${file//[^0-9]/}
    [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
    if grep -qazF "HVD_RUN_ID=$HVD_RUN_ID" "$file" 2>/dev/null; then
      echo "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
    fi
  done
  grep -hE "hvd-cluster:$HVD_CLUSTER_DIR(-[a-z]+)? " /proc/[0-9]*/mountinfo 2>/dev/null | sort -u | sed 's/^/mount: /'
  find "${HVD_CLUSTER_DIR%/*}" -maxdepth 1 -name "${HVD_CLUSTER_DIR##*/}*" -printf 'directory: %p\n'
}

check_nothing_is_left() {
  local what deadline=$((SECONDS + 5))
  while what=$(left) && [[ -n $what && $SECONDS -lt $deadline ]]; do sleep 0.2; done
  if [[ -z $what ]]; then
    count_pass 'nothing is left behind'
  else
    printf '%s\n' "$what"
    count_fail 'nothing is left behind'
  fi
}

main "$@"
