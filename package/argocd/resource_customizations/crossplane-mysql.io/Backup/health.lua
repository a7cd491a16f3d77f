-- Health of a Backup.
local status = obj.status or {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Complete" and condition.reason == "Failed" then
    return { status = "Degraded", message = condition.message }
  end
  -- No server has started from a copy of the archive, although the controller tried it.
  if condition.type == "RestoreTested" and condition.status == "False" then
    return { status = "Degraded", message = condition.message }
  end
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Complete" and condition.status == "True" then
    return { status = "Healthy", message = status.message or condition.message }
  end
end
return { status = "Progressing", message = status.message or "Waiting for the controller" }
