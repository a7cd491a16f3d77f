-- Health of a BackupStore.
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  if condition.type == "Reachable" then
    -- A condition of an earlier spec says nothing about this one.
    if (condition.observedGeneration or 0) < (obj.metadata.generation or 0) then
      break
    end
    if condition.status == "True" then
      return { status = "Healthy", message = condition.message }
    end
    if condition.status == "False" then
      return { status = "Degraded", message = condition.message }
    end
    return { status = "Progressing", message = condition.message }
  end
end
return { status = "Progressing", message = "Waiting for the controller" }
