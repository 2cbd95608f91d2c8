{{/* What all names begin with: the release's name, which for "kafka-twin" gives the names of the manifests. */}}
{{- define "kafka-twin.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "kafka-twin" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-kafka-twin" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "kafka-twin.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "kafka-twin" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kafka-twin.labels" -}}
{{ include "kafka-twin.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that the Prometheus operator's resources may need: (release, and others). */}}
{{- define "kafka-twin.monitoringLabels" -}}
{{- with .Values.monitoring.release }}
release: {{ . | quote }}
{{- end }}
{{- with .Values.monitoring.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A value as YAML; nothing if it is empty. */}}
{{- define "kafka-twin.yaml" -}}
{{- with . }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "kafka-twin.annotations" -}}
{{- with . }}
annotations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* (root, of): where the pods of a program run, and with whose rights their images are pulled. */}}
{{- define "kafka-twin.scheduling" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . | indent 2 }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $.of $key }}
{{ $key }}:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with concat .root.Values.hostAliases .of.hostAliases }}
hostAliases:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* (root, of, key): the security context for all, with that of a program over it. OpenShift gives out users and groups itself. */}}
{{- define "kafka-twin.security" -}}
{{- $merged := mergeOverwrite (deepCopy (index .root.Values .key)) (deepCopy (index .of .key)) -}}
{{- if eq (include "kafka-twin.openshift" .root) "true" -}}
{{- $merged = omit $merged "runAsUser" "runAsGroup" "fsGroup" "fsGroupChangePolicy" -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end }}

{{- define "kafka-twin.openshift" -}}
{{- if eq (toString .Values.openshift) "auto" -}}
{{- .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- else -}}
{{- .Values.openshift -}}
{{- end -}}
{{- end }}

{{/* (root, program): the name of its service account: yours, or the chart's, or the one that each namespace has. */}}
{{- define "kafka-twin.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $account := (index $root.Values (index . 1)).serviceAccount -}}
{{- if $account.name -}}
{{- $account.name -}}
{{- else if $account.create -}}
{{- include "kafka-twin.fullname" $root }}-{{ index . 1 }}
{{- else -}}
default
{{- end -}}
{{- end }}

{{- define "kafka-twin.ipFamilies" -}}
{{- with .Values.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.ipFamilies }}
ipFamilies:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* Of the Service that Spark makes for its driver. */}}
{{- define "kafka-twin.sparkFamilies" -}}
{{- with .Values.ipFamilyPolicy }}
spark.kubernetes.driver.service.ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.ipFamilies }}
spark.kubernetes.driver.service.ipFamilies: {{ join "," . | quote }}
{{- end }}
{{- end }}

{{/* The scheme at the exporter's port: what is said, or https where a certificate is seen to be set. */}}
{{- define "kafka-twin.scheme" -}}
{{- $variables := list -}}
{{- range concat .Values.extraEnv .Values.exporter.extraEnv -}}
{{- $variables = append $variables .name -}}
{{- end -}}
{{- $section := `(?m)^[ \t]*\[access\][^\n]*\n(?:[ \t]*(?:[^\[\s][^\n]*)?\r?\n)*[ \t]*certificate[ \t]*=[ \t]*["'][^"']` -}}
{{- $dotted := `(?m)^[ \t]*access\.certificate[ \t]*=[ \t]*["'][^"']` -}}
{{- if .Values.exporter.scheme -}}
{{- .Values.exporter.scheme -}}
{{- else if or (regexMatch $section .Values.config) (regexMatch $dotted .Values.config) (has "KAFKA_TWIN_ACCESS_CERTIFICATE" $variables) -}}
https
{{- else -}}
http
{{- end -}}
{{- end }}

{{- define "kafka-twin.probeScheme" -}}
{{- if eq (include "kafka-twin.scheme" .) "https" }}scheme: HTTPS{{ end -}}
{{- end }}

{{/* How Prometheus asks the exporter, and the other programs. */}}
{{- define "kafka-twin.scrapeExporter" -}}
{{- if eq (include "kafka-twin.scheme" .) "https" }}
scheme: https
{{- end }}
{{- include "kafka-twin.credentials" .Values.monitoring.exporter }}
{{- end }}

{{- define "kafka-twin.scrapePrograms" -}}
{{- if eq .Values.monitoring.programs.scheme "https" }}
scheme: https
{{- end }}
{{- include "kafka-twin.credentials" .Values.monitoring.programs }}
{{- end }}

{{- define "kafka-twin.credentials" -}}
{{- range $key := list "authorization" "tlsConfig" }}
{{- with index $ $key }}
{{ $key }}:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* (root, key of the image's values) */}}
{{- define "kafka-twin.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values (index . 1) -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "kafka-twin.storageClass" -}}
{{- with . }}storageClassName: {{ . | quote }}{{ end -}}
{{- end }}

{{- define "kafka-twin.config" -}}
{{- .Values.existingConfigMap | default (printf "%s-config" (include "kafka-twin.fullname" .)) -}}
{{- end }}

{{/* Pods are replaced when the configuration changes. Of a ConfigMap that is yours, the chart knows the name alone. */}}
{{- define "kafka-twin.checksum" -}}
{{- printf "%s %s" .Values.existingConfigMap .Values.config | sha256sum -}}
{{- end }}

{{- define "kafka-twin.admissionSecret" -}}
{{- .Values.admission.existingSecret | default (printf "%s-admission" (include "kafka-twin.fullname" .)) -}}
{{- end }}

{{- define "kafka-twin.admissionAnnotations" -}}
{{- if .Values.admission.certManager.enabled }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "kafka-twin.fullname" . }}-admission
{{- end }}
{{- end }}

{{- define "kafka-twin.admissionCaBundle" -}}
{{- if not .Values.admission.certManager.enabled }}
caBundle: {{ .Values.admission.caBundle }}
{{- end }}
{{- end }}

{{/* What a schema cannot say: values that need others. */}}
{{- define "kafka-twin.check" -}}
{{- if and (not .Values.config) (not .Values.existingConfigMap) }}
{{- fail "config: is empty: give your twin.toml with --set-file config=twin.toml, or name a ConfigMap that has it in existingConfigMap" }}
{{- end }}
{{- if and .Values.config .Values.existingConfigMap }}
{{- fail "config and existingConfigMap: only one of them can be the configuration" }}
{{- end }}
{{- if .Values.config }}
{{- range $section := list "cluster" }}
{{- if not (regexMatch (printf "(?m)^\\s*\\[%s\\]" $section) $.Values.config) }}
{{- fail (printf "config: has no section [%s]: it needs name and bootstrap of your cluster" $section) }}
{{- end }}
{{- end }}
{{- if and .Values.archive.enabled (not (regexMatch "(?m)^\\s*(\\[archive\\]|archive\\.path\\s*=)" .Values.config)) }}
{{- fail "archive.enabled: config has no section [archive]: it needs path, a URL that all pods reach" }}
{{- end }}
{{- end }}
{{- if and (eq .Values.query.mode "sparkOperator") (not .Values.query.checkpoint) }}
{{- fail "query.checkpoint: must be set with query.mode sparkOperator: a URL that driver and executors reach" }}
{{- end }}
{{- with .Values.admission }}
{{- if and .enabled (not .certManager.enabled) (not (and .existingSecret .caBundle)) }}
{{- fail "admission: without certManager.enabled, existingSecret and caBundle have to be set" }}
{{- end }}
{{- if and .enabled .certManager.enabled .existingSecret }}
{{- fail "admission.existingSecret: cert-manager makes the certificate: set certManager.enabled to false to use your own" }}
{{- end }}
{{- end }}
{{- if and .Values.exporter.ingress.enabled (not .Values.exporter.ingress.host) }}
{{- fail "exporter.ingress.host: must be set where the Ingress is enabled" }}
{{- end }}
{{- end }}
