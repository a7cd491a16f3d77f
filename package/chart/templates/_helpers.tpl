{{/* The namespace that the admission policies, the function and the controller's messages name. */}}
{{- define "crossplane-mysql.namespace" -}}
crossplane-mysql-system
{{- end -}}

{{/* The registry of the packages and, by default, of the image. A package names the packages that it needs by this registry. */}}
{{- define "crossplane-mysql.registry" -}}
ghcr.io/crossplane-mysql
{{- end -}}

{{/* Fails with an error message if the namespace or a combination of values is not supported. Otherwise it prints nothing. */}}
{{- define "crossplane-mysql.validate" -}}
{{- $namespace := include "crossplane-mysql.namespace" . -}}
{{- if ne .Release.Namespace $namespace -}}
{{- fail (printf "the release must be in the namespace %s, not in %s: admission policies and NetworkPolicies name the controller's namespace. Run: helm install crossplane-mysql CHART --namespace %s --create-namespace" $namespace .Release.Namespace $namespace) -}}
{{- end -}}
{{- $p := .Values.packages -}}
{{- if and (not $p.install) (or $p.namespaced $p.hostpath $p.database) -}}
{{- fail "packages.namespaced, packages.hostpath and packages.database require packages.install. If kubectl has installed the packages, apply these three from the end of package/install.yaml" -}}
{{- end -}}
{{- $v := default dict .Values.controller.volumeStats -}}
{{- if and (not $v.prometheusURL) (or $v.selector $v.tokenFile $v.caFile) -}}
{{- fail "controller.volumeStats.selector, tokenFile and caFile require controller.volumeStats.prometheusURL" -}}
{{- end -}}
{{- if and (or $v.tokenFile $v.caFile) (hasPrefix "http://" (default "" $v.prometheusURL)) -}}
{{- fail "controller.volumeStats.tokenFile and caFile require a prometheusURL with https" -}}
{{- end -}}
{{- end -}}

{{/* The image of the controller, its Jobs and the gateway. */}}
{{- define "crossplane-mysql.image" -}}
{{- $i := .Values.image -}}
{{- printf "%s:%s" $i.repository (default .Chart.AppVersion $i.tag) -}}
{{- with $i.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* Labels of an object: context and, if it is not crossplane-mysql, name of the component. */}}
{{- define "crossplane-mysql.labels" -}}
{{- $c := .context -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" $c.Chart.Name ($c.Chart.Version | replace "+" "_"))
  "app.kubernetes.io/name" (default "crossplane-mysql" .name)
  "app.kubernetes.io/version" $c.Chart.AppVersion
  "app.kubernetes.io/part-of" "crossplane-mysql"
  "app.kubernetes.io/managed-by" $c.Release.Service -}}
{{- toYaml (merge $labels (default dict .labels) (default dict $c.Values.commonLabels)) -}}
{{- end -}}

{{/* The key annotations of an object, or nothing: context, annotations, and keep if Helm must not delete the object. */}}
{{- define "crossplane-mysql.annotations" -}}
{{- $own := dict -}}
{{- if .keep -}}{{- $own = dict "helm.sh/resource-policy" "keep" -}}{{- end -}}
{{- with merge $own (default dict .annotations) (default dict .context.Values.commonAnnotations) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Labels of a pod: context, name and component. */}}
{{- define "crossplane-mysql.podLabels" -}}
{{- $own := dict -}}
{{- with .name -}}{{- $own = dict "app.kubernetes.io/name" . -}}{{- end -}}
{{- with merge $own (default dict .component.podLabels) (default dict .context.Values.commonLabels) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The scheduling fields of a component's pod. */}}
{{- define "crossplane-mysql.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* A security context without user and group IDs if the platform assigns them: context and securityContext. */}}
{{- define "crossplane-mysql.securityContext" -}}
{{- $s := .securityContext -}}
{{- if not .context.Values.pinUserIDs -}}
{{- $s = omit (default dict $s) "runAsUser" "runAsGroup" "fsGroup" "supplementalGroups" -}}
{{- end -}}
{{- toYaml $s -}}
{{- end -}}

{{/* The spec of a PodDisruptionBudget without its selector. */}}
{{- define "crossplane-mysql.disruption" -}}
{{- if not (has (toString .maxUnavailable) (list "" "<nil>")) -}}
maxUnavailable: {{ .maxUnavailable }}
{{- else -}}
minAvailable: {{ .minAvailable }}
{{- end -}}
{{- end -}}
