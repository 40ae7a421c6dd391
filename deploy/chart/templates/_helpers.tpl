{{- define "termguard.labels" -}}
app.kubernetes.io/name: termguard
{{- end }}

{{- define "termguard.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "termguard.config" -}}
apiVersion: termguard.dev/v1
kind: Config
{{ toYaml .Values.config }}
{{- end }}

{{- define "termguard.ownCertificates" -}}
{{- if eq .Values.certificates.source "own" }}true{{ end -}}
{{- end }}

{{/* A Role or ClusterRole bound to termguard: kind, name and namespace. */}}
{{- define "termguard.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .namespace }}
  {{- end }}
  labels:
    app.kubernetes.io/name: termguard
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: termguard
  namespace: {{ .namespace }}
{{- end }}
