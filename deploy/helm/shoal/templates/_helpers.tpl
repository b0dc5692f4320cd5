{{- define "shoal.labels" -}}
app.kubernetes.io/name: shoal
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "shoal.selector" -}}
app.kubernetes.io/name: shoal
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shoal.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "shoal.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
# Volumes are the group's; what is in them stays as it is: programs refuse keys that others can read.
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "shoal.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "shoal.metricsAnnotations" -}}
prometheus.io/scrape: "true"
prometheus.io/path: /metrics
{{- end }}

{{- define "shoal.etcdAddresses" -}}
{{- $name := printf "%s-etcd" .Release.Name -}}
{{- $addresses := list -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- $addresses = append $addresses (printf "http://%s-%d.%s:2379" $name $i $name) -}}
{{- end -}}
{{- toJson $addresses -}}
{{- end }}

{{- define "shoal.advertise" -}}
{{- $root := . -}}
{{- $addresses := .Values.settings.network.advertise -}}
{{- if not $addresses -}}
{{- range $i := until (int .Values.scheduler.replicas) -}}
{{- $addresses = append $addresses (printf "%s-scheduler-%d.%s.svc:%d" $root.Release.Name $i $root.Release.Namespace (int $root.Values.scheduler.service.port)) -}}
{{- end -}}
{{- end -}}
{{- toJson $addresses -}}
{{- end }}
