# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion for hvd-info, hvd-perf and horovodrun: bash-completion loads it by the name of any of them; without it,
# source this file. Options are those that the program's own --help has, so none is kept here; words that --help tells in
# sentences are. Completes nothing for srun, whose completion is Slurm's.

# _hvd_takes_value HELP OPTION: what --help tells with one blank and a word behind it.
_hvd_takes_value() {
  [[ $2 == -* ]] && grep -qE -- "(^|[[ ,|])$2(, -[a-z-]+)* [^] ]" <<<"$1"
}

# _hvd_offer WORDS: those that begin like the word at the cursor.
_hvd_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_hvd_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# _hvd_options HELP
_hvd_options() {
  _hvd_offer "$(grep -oE -- '(^|[[ ,|])--?[a-zA-Z][a-z-]*' <<<"$1" | tr -d '[ ,|' | sort -u)"
}

_hvd_info() {
  local cur=$2 previous=$3 help
  COMPREPLY=()
  case $previous in
    --topology) _hvd_files ;;
    --pid) _hvd_offer "$(pgrep -u "$UID" 2>/dev/null)" ;;
    --policy) _hvd_offer 'auto closest rank map: all none' ;;
    --cpu-policy) _hvd_offer 'auto none' ;;
    --nic-policy) _hvd_offer 'auto nearest none' ;;
    *)
      if [[ ${COMP_WORDS[1]} == bind && $COMP_CWORD -gt 1 ]]; then
        help=$("$1" bind --help 2>/dev/null)
      else
        help=$("$1" --help 2>/dev/null)
      fi
      _hvd_takes_value "$help" "$previous" && return
      if [[ $cur == -* ]]; then
        _hvd_options "$help"
      elif [[ $COMP_CWORD == 1 ]]; then
        _hvd_offer bind
      fi
      ;;
  esac
}

_hvd_perf() {
  local cur=$2 previous=$3 help
  COMPREPLY=()
  case $previous in
    --op) _hvd_offer 'sum average min max product adasum' ;;
    --type) _hvd_offer 'uint8 int8 uint16 int16 int32 int64 float16 bfloat16 float32 float64 bool' ;;
    --model) _hvd_offer 'resnet50 bert-base vgg16' ;;
    --compare) _hvd_offer mpi ;;
    --json) _hvd_files ;;
    *)
      help=$("$1" --help 2>/dev/null)
      _hvd_takes_value "$help" "$previous" && return
      if [[ $cur == -* ]]; then
        _hvd_options "$help"
      elif [[ $COMP_CWORD == 1 ]]; then
        _hvd_offer 'allreduce allgather broadcast alltoall reducescatter barrier step idle'
      fi
      ;;
  esac
}

# Behind the flags is a program of the user's, and then that program's arguments.
_horovodrun() {
  local cur=$2 previous=$3 help word i
  COMPREPLY=()
  help=$("$1" --help 2>/dev/null)
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word != -* ]]; then
      _hvd_files
      return
    fi
    ! _hvd_takes_value "$help" "$word" || i=$((i + 1))
  done
  case $previous in
    -hostfile | --hostfile | --config-file | --output-filename | --timeline-filename | --autotune-log-file) _hvd_files ;;
    --log-level) _hvd_offer 'TRACE DEBUG INFO WARNING ERROR FATAL' ;;
    *)
      _hvd_takes_value "$help" "$previous" && return
      if [[ $cur == -* ]]; then
        _hvd_options "$help"
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$cur" && compgen -f -- "$cur")
      fi
      ;;
  esac
}

complete -F _hvd_info hvd-info
complete -F _hvd_perf hvd-perf
complete -F _horovodrun horovodrun
