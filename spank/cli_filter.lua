-- SPDX-License-Identifier: Apache-2.0
--
-- For sites that prefer Slurm's command-line filter to the plugin's own way of selecting PMIx (which
-- executes srun once more): with CliFilterPlugins=lua in slurm.conf, this as cli_filter.lua beside
-- it (or merged into the one that is there), and "cli-filter" at the end of the plugin's line in
-- plugstack.conf. What the user has chosen is not changed. PMIxCollFence=ring in mpi.conf belongs to
-- it: a filter cannot set SLURM_PMIX_FENCE, and without either MPI_Init crashes now and then.

local function wants_horovod(options)
  local plugin = options["spank"] and options["spank"]["horovod"]
  local value = plugin and plugin["horovod"]
  return value ~= nil and value ~= "off"
end

local function set_unless_set(options, name, value)
  if options[name] == nil then
    options[name] = value
  end
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  if options["type"] == "srun" and wants_horovod(options) then
    set_unless_set(options, "mpi", "pmix")
    -- A rank that fails ends the step, as it does under mpirun.
    set_unless_set(options, "kill-on-bad-exit", "1")
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
