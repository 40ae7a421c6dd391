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

{{/* Fails where the configuration names a policy that there is not. Of those in the binary
(policies.txt), the one with the most words in common is the one that may be meant. */}}
{{- define "termguard.policies" -}}
{{- $known := .Files.Get "policies.txt" | trim | splitList "\n" }}
{{- $own := .Values.otherPolicies }}
{{- range $folder, $_ := .Values.extraPolicies }}
{{- $own = append $own (replace "_" "-" $folder) }}
{{- end }}
{{- range $where, $of := dict "enforcement.policies" (.Values.config.enforcement).policies "params" .Values.config.params }}
{{- range $id, $_ := $of }}
{{- if not (or (has $id $known) (has $id $own)) }}
{{- $best := "" }}{{ $most := 0 }}
{{- range $candidate := $known }}
{{- $common := 0 }}
{{- range splitList "-" $id }}{{ if has . (splitList "-" $candidate) }}{{ $common = add1 $common }}{{ end }}{{ end }}
{{- if gt (int $common) (int $most) }}{{ $best = $candidate }}{{ $most = $common }}{{ end }}
{{- end }}
{{- fail (printf "config.%s names %q, and there is no such policy%s. If a ConfigMap that this chart does not make has it, list it in otherPolicies." $where $id (ternary (printf ": did you mean %s?" $best) "" (ne $best ""))) }}
{{- end }}
{{- end }}
{{- end }}
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
