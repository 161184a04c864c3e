# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Is the installed completion for bash true to the installed programs? Sourced by installcheck.sh, whose variables it
# reads. Asks the function that bash would, with the words of a line that is being typed.
#
# shellcheck disable=SC2154 # variables of installcheck.sh

# offered PROGRAM WORD...: what is offered for the last word, on one line.
offered() {
  # shellcheck disable=SC2016 # for the inner shell
  bash --norc -c '. "$1" && shift || exit
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) spec=$(complete -p "${1##*/}") || exit
    [[ $spec =~ \ -F\ ([a-z_]+) ]] || exit
    "${BASH_REMATCH[1]}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"' bash "$at$completionsdir/$1" "$at$bindir/$1" "${@:2}"
}

# A row: the line up to the cursor, then what is offered.
completes_lines() {
  local line expected said words
  while IFS='|' read -r line expected; do
    read -ra words <<<"$line"
    [[ $line != *' ' ]] || words+=('')
    said=$(offered "${words[@]}") || return
    printf '%s -> %s\n' "$line" "$said"
    [[ $said == "$expected" ]] || return
  done <<'END'
hvd-info b|bind
hvd-info bind --poli|--policy
hvd-info --j|--json
hvd-info --topology /proc/filesyste|/proc/filesystems
hvd-perf all|allreduce allgather alltoall
hvd-perf allreduce --max |
hvd-perf allreduce --comp|--compare --compute
hvd-perf allreduce --json /proc/filesyste|/proc/filesystems
horovodrun --fusion|--fusion-threshold-mb
horovodrun -np |
horovodrun -np 2 -hostfile /proc/filesyste|/proc/filesystems
horovodrun -np 2 --timeline-mark-cycles python3 /proc/filesyste|/proc/filesystems
horovodrun -np 2 --verbose python3 --fusion|
END
}

# Options are those of --help, which begin its lines.
completes_every_option() {
  local program help option all
  for program in hvd-perf horovodrun 'hvd-info bind' hvd-info; do
    # shellcheck disable=SC2086 # words
    all=" $(offered $program -) "
    # shellcheck disable=SC2086
    help=$("$at$bindir"/$program --help) || return
    while read -r option; do
      [[ $all == *" $option "* ]] || { echo "$program: $option is not offered" && return 1; }
    done < <(sed -nE 's/^ +((--?[a-z-]+(, )?)+).*/\1/p' <<<"$help" | tr -d ' ' | tr ',' '\n')
  done
}

# A row: a line that lacks a word, the words that are offered for it. A wrong word is refused with those that are right.
completes_every_word() {
  local line said refusal words missing
  while read -r line; do
    read -ra words <<<"$line"
    said=$(offered "${words[@]}" '') || return
    refusal=$("$at$bindir/${words[0]}" "${words[@]:1}" none-such true 2>&1)
    printf '%s: %s\n%s\n' "$line" "$said" "$refusal"
    refusal=$(sed -E 's/.*(is one of|none of|are|is|there is is) //; s/, | and /\n/g; s/:A:B//' <<<"$refusal" | sort)
    missing=$(diff <(tr ' ' '\n' <<<"$said" | tr -d : | sort) - <<<"$refusal") || { echo "$missing" && return 1; }
  done <<'END'
hvd-perf
hvd-perf allreduce --op
hvd-perf allreduce --type
hvd-perf allreduce --compare
hvd-perf step --model
hvd-info bind --policy
hvd-info bind --cpu-policy
hvd-info bind --nic-policy
horovodrun -np 1 --log-level
END
}
