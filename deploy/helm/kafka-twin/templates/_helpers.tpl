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

{{- define "kafka-twin.annotations" -}}
{{- with . }}
annotations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* (root, program): its ServiceAccount, without what says that pods get a token. */}}
{{- define "kafka-twin.account" -}}
{{- $root := index . 0 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "kafka-twin.serviceAccount" . }}
  labels:
    {{- include "kafka-twin.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ index . 1 }}
  {{- include "kafka-twin.annotations" (index $root.Values (index . 1)).serviceAccount.annotations | nindent 2 }}
{{- end }}

{{/* (root, program): labels and annotations of its pods. */}}
{{- define "kafka-twin.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $of := index $root.Values (index . 1) -}}
labels:
  {{- include "kafka-twin.selectorLabels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
  {{- with $of.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ include "kafka-twin.checksum" $root }}
  {{- with $of.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* (root, program): where its pods run, as whom, and with whose rights their images are pulled. */}}
{{- define "kafka-twin.podSpec" -}}
{{- $root := index . 0 -}}
{{- $of := index $root.Values (index . 1) -}}
# Variables that Kubernetes makes of service names would be read as settings: KAFKA_TWIN_EXPORTER_PORT.
enableServiceLinks: false
# The images name their user, 10001. Where a cluster gives out users, as OpenShift does, any other will do.
securityContext:
  {{- include "kafka-twin.security" (append . "podSecurityContext") | nindent 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $of $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $of.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with concat $root.Values.hostAliases $of.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* (root, program): with whose rights its pods ask the API server. Spark decides of a driver and its executors. */}}
{{- define "kafka-twin.podAccount" -}}
serviceAccountName: {{ include "kafka-twin.serviceAccount" . }}
automountServiceAccountToken: {{ (index (index . 0).Values (index . 1)).automountServiceAccountToken }}
{{- end }}

{{/* (root, program, key of the image's values): its container, but for ports, variables, probes and mounts. */}}
{{- define "kafka-twin.container" -}}
{{- $root := index . 0 -}}
{{- $image := index . 2 -}}
image: {{ include "kafka-twin.image" (list $root $image) }}
imagePullPolicy: {{ (index $root.Values $image).pullPolicy }}
args: [{{ index . 1 }}]
resources:
  {{- toYaml (index $root.Values (index . 1)).resources | nindent 2 }}
{{ include "kafka-twin.secured" . }}
{{ include "kafka-twin.envFrom" . }}
{{- end }}

{{- define "kafka-twin.secured" -}}
securityContext:
  {{- include "kafka-twin.security" (list (index . 0) (index . 1) "containerSecurityContext") | nindent 2 }}
{{- end }}

{{- define "kafka-twin.envFrom" -}}
envFrom:
  - secretRef: {name: {{ (index . 0).Values.existingSecret }}, optional: true}
  {{- include "kafka-twin.more" (list (index . 0) (index . 1) "extraEnvFrom") | nindent 2 }}
{{- end }}

{{/* (root, program, key): items of a list for all pods, and of this program's. */}}
{{- define "kafka-twin.more" -}}
{{- $root := index . 0 -}}
{{- with concat (index $root.Values (index . 2)) (index $root.Values (index . 1) (index . 2)) }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* (root, program): what all containers mount. */}}
{{- define "kafka-twin.mounts" -}}
- {name: config, mountPath: /etc/kafka-twin, readOnly: true}
{{ include "kafka-twin.executorMounts" . }}
{{- end }}

{{/* (root, program): the same without the configuration, which executors have of their driver. */}}
{{- define "kafka-twin.executorMounts" -}}
- {name: ca, mountPath: /etc/kafka-twin-ca, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{ include "kafka-twin.more" (list (index . 0) (index . 1) "extraVolumeMounts") }}
{{- end }}

{{/* (root, program, size of /tmp) */}}
{{- define "kafka-twin.volumes" -}}
- name: config
  configMap: {name: {{ include "kafka-twin.config" (index . 0) }}}
{{ include "kafka-twin.executorVolumes" . }}
{{- end }}

{{/* The same without the configuration. */}}
{{- define "kafka-twin.executorVolumes" -}}
- name: ca # ssl_cafile = "/etc/kafka-twin-ca/ca.crt"
  secret: {secretName: {{ (index . 0).Values.existingCaSecret }}, optional: true}
- name: tmp
  emptyDir: {sizeLimit: {{ index . 2 }}}
{{ include "kafka-twin.more" (list (index . 0) (index . 1) "extraVolumes") }}
{{- end }}

{{/* (root, program): the volume of its checkpoint. */}}
{{- define "kafka-twin.claims" -}}
{{- with (index (index . 0).Values (index . 1)).persistence -}}
- metadata:
    name: state
  spec:
    accessModes: [ReadWriteOnce]
    resources:
      requests: {storage: {{ .size }}}
    {{- with .storageClass }}
    storageClassName: {{ . | quote }}
    {{- end }}
{{- end }}
{{- end }}

{{/* (root, program, key): the security context for all, with that of a program over it. OpenShift gives out users and groups itself. */}}
{{- define "kafka-twin.security" -}}
{{- $root := index . 0 -}}
{{- $key := index . 2 -}}
{{- $merged := mergeOverwrite (deepCopy (index $root.Values $key)) (deepCopy (index $root.Values (index . 1) $key)) -}}
{{- if eq (include "kafka-twin.openshift" $root) "true" -}}
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

{{- define "kafka-twin.config" -}}
{{- .Values.existingConfigMap | default (printf "%s-config" (include "kafka-twin.fullname" .)) -}}
{{- end }}

{{/* Pods are replaced when the configuration changes. Of a ConfigMap that is yours, the chart knows the name alone. */}}
{{- define "kafka-twin.checksum" -}}
{{- printf "%s %s" .Values.existingConfigMap .Values.config | sha256sum -}}
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
