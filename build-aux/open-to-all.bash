# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What is built in a checkout is run by the cluster's users, so they have to be able to get there.

# open_to_all DIRECTORY: everybody may enter it and those above it.
open_to_all() {
  local directory=$1
  while [[ $(stat -L -c %A "$directory") == *[xt] ]]; do
    [[ $directory != / ]] || return 0
    directory=$(dirname "$directory")
  done
  return 1
}
