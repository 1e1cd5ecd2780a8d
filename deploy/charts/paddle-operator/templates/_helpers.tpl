{{- define "paddle-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/name: paddle-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The selector of earlier versions, of whose Deployment this one is an update; it cannot be changed. */}}
{{- define "paddle-operator.selector" -}}
control-plane: controller-manager
{{- end }}

{{/* What other operators do not label their pods with. */}}
{{- define "paddle-operator.own" -}}
app.kubernetes.io/name: paddle-operator
{{- end }}

{{/* A selector of the pods of jobs. */}}
{{- define "paddle-operator.ofJobs" -}}
matchExpressions:
- key: batch.paddlepaddle.org/job-name
  operator: Exists
{{- end }}

{{- define "paddle-operator.account" -}}
{{ .Values.serviceAccount.name | default "paddle-manager-sa" }}
{{- end }}

{{- define "paddle-operator.image" -}}
{{ .image.repository }}:{{ .image.tag | default .default }}
{{- end }}

{{- define "paddle-operator.roleKind" -}}
{{ if eq .Values.scope "cluster" }}ClusterRole{{ else }}Role{{ end }}
{{- end }}
