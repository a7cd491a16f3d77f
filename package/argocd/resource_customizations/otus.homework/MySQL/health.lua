-- Health of an instance. The checks of MySQL (otus.homework), MySQL (crossplane-mysql.io) and Database (zalando.org) are the
-- same file. Argo CD does not call it while the object is being deleted: the health is Progressing then.
local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function has(name, value, reason)
  local condition = conditions[name]
  return condition ~= nil and condition.status == value and (reason == nil or condition.reason == reason)
end

local function health(state, message)
  if message == nil or message == "" then
    message = status.message or "Waiting for Crossplane"
  end
  return { status = state, message = message }
end

if (obj.metadata.annotations or {})["crossplane.io/paused"] == "true" then
  return health("Suspended", "Crossplane is paused by the annotation crossplane.io/paused")
end

-- Conditions of an earlier spec say nothing about this one.
local seen = (conditions.Synced or {}).observedGeneration
if seen ~= nil and seen < (obj.metadata.generation or 0) then
  return health("Progressing", "Waiting for Crossplane to see the new spec")
end

-- The function refuses the spec, or a part of it. A server that has started continues to run.
if has("Accepted", "False") then
  return health("Degraded", conditions.Accepted.message)
end
if has("Synced", "False") then
  return health("Degraded", conditions.Synced.message)
end
-- The condition Synced of a claim is not about its composite resource.
if status.reason == "Unsynced" then
  return health("Degraded")
end
if has("Blocked", "True") then
  return health("Degraded", conditions.Blocked.message)
end
if has("Restored", "False", "RestoreFailed") then
  return health("Degraded", conditions.Restored.message)
end
if has("PendingRestart", "True", "SettingsRefused") or has("PendingRestart", "True", "SettingsTakenBack") then
  return health("Degraded", conditions.PendingRestart.message)
end

if has("Serving", "False", "Suspended") then
  return health("Suspended")
end
if has("PendingRestart", "True", "ValidatingSettings") or has("PendingRestart", "True", "SettingsOnTrial") then
  return health("Progressing", conditions.PendingRestart.message)
end
-- A backup that failed is in the message. It does not make the server unhealthy.
if has("Ready", "True") then
  return health("Healthy")
end
return health("Progressing")
