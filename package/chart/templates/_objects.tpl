{{/* Whether a folder of manifests is wanted. */}}
{{- define "crossplane-mysql.wants" -}}
{{- $v := .context.Values -}}
{{- if or (has .part (list "records" "controller")) (and (eq .part "gateway") $v.gateway.enabled) (and (eq .part "packages") $v.packages.install) (and (eq .part "platform") $v.platform.create) -}}yes{{- end -}}
{{- end -}}

{{/* An object of a manifest, with what the values say of it. What outlives the controller is kept when the chart is uninstalled. */}}
{{- define "crossplane-mysql.object" -}}
{{- $v := .context.Values -}}
{{- $o := .object -}}
{{- if has .part (list "records" "packages" "platform") -}}
{{- $_ := set $o.metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") (default (dict) $o.metadata.annotations)) -}}
{{- end -}}
{{- if eq $o.kind "Deployment" -}}
{{- $_ := include "crossplane-mysql.deployment" (dict "context" .context "object" $o) -}}
{{- else if eq $o.kind "MySQLPlatform" -}}
{{- $said := dict -}}
{{- if $v.image -}}{{- $_ := set $said "agentImage" $v.image -}}{{- end -}}
{{- $_ := set $o "spec" (mergeOverwrite (deepCopy $o.spec) $said (deepCopy (default (dict) $v.platform.spec))) -}}
{{- end -}}
{{ toYaml $o }}
{{- end -}}

{{/* Sets what the values say of a Deployment of ours. It prints nothing. */}}
{{- define "crossplane-mysql.deployment" -}}
{{- $v := .context.Values -}}
{{- $spec := .object.spec -}}
{{- $pod := $spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- if $v.image -}}
{{- $_ := set $container "image" $v.image -}}
{{- range $container.env -}}{{- if eq .name "AGENT_IMAGE" -}}{{- $_ := set . "value" $v.image -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if $v.imagePullSecrets -}}
{{- $names := list -}}
{{- range $v.imagePullSecrets -}}{{- $names = append $names (dict "name" .) -}}{{- end -}}
{{- $_ := set $pod "imagePullSecrets" $names -}}
{{- end -}}
{{- if eq $container.name "gateway" -}}
{{- $_ := set $spec "replicas" $v.gateway.replicas -}}
{{- $_ := set $container "args" (concat $container.args (default (list) $v.gateway.args)) -}}
{{- else -}}
{{- $c := $v.controller -}}
{{- $_ := set $spec "replicas" $c.replicas -}}
{{- if $c.resources -}}{{- $_ := set $container "resources" $c.resources -}}{{- end -}}
{{- if $c.goMemoryLimit -}}
{{- range $container.env -}}{{- if eq .name "GOMEMLIMIT" -}}{{- $_ := set . "value" $c.goMemoryLimit -}}{{- end -}}{{- end -}}
{{- end -}}
{{- $_ := set $container "args" (concat $container.args (default (list) $c.args)) -}}
{{- if $c.jobResources -}}{{- $_ := set $container "env" (append $container.env (dict "name" "JOB_RESOURCES" "value" (toJson $c.jobResources))) -}}{{- end -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- $said := get $c $name -}}
{{- if $said -}}{{- $_ := set $pod $name $said -}}{{- end -}}
{{- end -}}
{{- $meta := $spec.template.metadata -}}
{{- $_ := set $meta "labels" (merge $meta.labels (default (dict) $c.podLabels)) -}}
{{- if $c.podAnnotations -}}{{- $_ := set $meta "annotations" $c.podAnnotations -}}{{- end -}}
{{- end -}}
{{- end -}}
