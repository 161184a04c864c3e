# SPDX-License-Identifier: Apache-2.0
#
# Makes horovod(7): reads the table of settings (settings.rows, preprocessed), then the page's text, and puts what the
# table says where the text has @SETTINGS@, @NO_EFFECT@ and the name of a variable that the plugin sets, as
# @HOROVOD_RANK@. A row without its place in the text, or a place without its row, is an error.

function complain(what) {
  print "horovod.awk: " what > "/dev/stderr"
  failed = 1
}

# "a" "b" -> ab, as C has it.
function literal(text) {
  gsub(/" *"/, "", text)
  gsub(/^ *"?|"? *$/, "", text)
  return text
}

# What is written behind the key.
function value_of(kind) {
  if (kind == "kSize") return " Ns = Ns Ar size"
  if (kind == "kCount") return " Ns = Ns Ar number"
  if (kind == "kDuration") return " Ns = Ns Ar time"
  if (kind == "kFlag") return " Ns Op = Ns Cm on | off"
  if (kind == "kChoice") return " Ns = Ns Ar word"
  if (kind == "kList") return " Ns = Ns Ar list"
  if (kind == "kText") return " Ns = Ns Ar text"
  complain("kind \"" kind "\" is not known")
}

function unit_of(bare_unit) {
  if (bare_unit == "kNsPerMs") return "ms"
  if (bare_unit == "kNsPerSecond") return "s"
  complain("a bare number of \"" bare_unit "\" is not known")
}

function print_setting(row,   field, facts) {
  split(row, field, "|")
  facts = "Default: " (field[6] == "" ? "empty" : field[6])
  if (field[4] == "kChoice") {
    gsub(/ /, ", ", field[9])
    facts = facts "; one of " field[9]
  }
  if (field[7] != "") facts = facts "; from " field[7] " to " field[8]
  if (field[4] == "kDuration") facts = facts "; a bare number is in " unit_of(field[5])
  print ".It Cm " field[2] value_of(field[4])
  print "\\&" toupper(substr(field[10], 1, 1)) substr(field[10], 2) "."
  print facts "."
  print "Variable:"
  print ".Ev " field[3] "."
}

# The table comes first.
NR == FNR {
  if ($0 !~ /\|/) next
  count = split($0, cell, "|")
  row = literal(cell[1])
  for (i = 2; i <= count; i++) row = row "|" literal(cell[i])
  kind = literal(cell[1])
  if (kind == "setting" && count == 10) settings[++setting_count] = row
  else if (kind == "placement" && count == 2) placements[literal(cell[2])] = 1
  else if (kind == "no_effect" && count == 2) no_effects[++no_effect_count] = literal(cell[2])
  else complain("not a row of the table: " $0)
  next
}

$0 == "@SETTINGS@" {
  for (i = 1; i <= setting_count; i++) print_setting(settings[i])
  settings_shown = 1
  next
}

$0 == "@NO_EFFECT@" {
  for (i = 1; i <= no_effect_count; i++) print ".Ev " no_effects[i] (i < no_effect_count ? " ," : ".")
  no_effects_shown = 1
  next
}

/^@HOROVOD_[A-Z_]*@$/ {
  variable = substr($0, 2, length($0) - 2)
  if (!(variable in placements)) complain("the table has no placement " variable)
  delete placements[variable]
  print ".It Ev " variable
  next
}

{ print }

END {
  if (setting_count == 0 || !settings_shown || !no_effects_shown) complain("the table or its place is missing")
  for (variable in placements) complain("the page does not tell what " variable " is")
  exit failed
}
