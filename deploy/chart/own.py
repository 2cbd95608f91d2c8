"""Templates that are made from no manifest: configuration, Ingress, what may leave, alert rules and
dashboards."""

from __future__ import annotations

from typing import Final

CONFIG: Final = """\
{{- include "kafka-twin.check" . }}
{{- if not .Values.existingConfigMap }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "kafka-twin.config" . }}
  labels:
    {{- include "kafka-twin.labels" . | nindent 4 }}
data:
  twin.toml: |
    {{- .Values.config | trim | nindent 4 }}
{{- end }}
"""

INGRESS: Final = """\
{{- with .Values.exporter.ingress }}
{{- if .enabled }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "kafka-twin.fullname" $ }}-exporter
  labels:
    {{- include "kafka-twin.labels" $ | nindent 4 }}
    app.kubernetes.io/component: exporter
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . | quote }}
  {{- end }}
  {{- with .tls }}
  tls:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - host: {{ .host | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ include "kafka-twin.fullname" $ }}-exporter
                port: {name: http}
{{- end }}
{{- end }}
"""

EGRESS: Final = """\
{{- if and .Values.networkPolicy.enabled .Values.networkPolicy.egress.enabled }}
# Peers that are not said are any address, of IPv4 and of IPv6.
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "kafka-twin.fullname" . }}-egress
  labels:
    {{- include "kafka-twin.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "kafka-twin.selectorLabels" . | nindent 6 }}
  policyTypes: [Egress]
  egress:
    - ports: # names; OpenShift's DNS listens on 5353
        - {protocol: UDP, port: 53}
        - {protocol: TCP, port: 53}
        - {protocol: UDP, port: 5353}
        - {protocol: TCP, port: 5353}
    - to: # each other: webhook and exporter, Spark's driver and executors
        - podSelector:
            matchLabels:
              {{- include "kafka-twin.selectorLabels" . | nindent 14 }}
    - ports: # brokers
        {{- range .Values.networkPolicy.egress.ports }}
        - {protocol: TCP, port: {{ . }}}
        {{- end }}
      {{- with .Values.networkPolicy.egress.to }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with .Values.networkPolicy.egress.more }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- $asking := list }}
{{- if .Values.admission.enabled }}{{ $asking = append $asking "admission" }}{{ end }}
{{- if eq .Values.query.mode "sparkOperator" }}{{ $asking = append $asking "query" }}{{ end }}
{{- with $asking }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "kafka-twin.fullname" $ }}-egress-api-server
  labels:
    {{- include "kafka-twin.labels" $ | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "kafka-twin.selectorLabels" $ | nindent 6 }}
    matchExpressions:
      - {key: app.kubernetes.io/component, operator: In, values: {{ toJson . }}}
  policyTypes: [Egress]
  egress:
    - ports: # the API server, at its Service or at its own port
        - {protocol: TCP, port: 443}
        - {protocol: TCP, port: 6443}
{{- end }}
{{- end }}
"""

RULES: Final = """\
{{- if and .Values.monitoring.enabled .Values.monitoring.rules }}
{{- range $path, $_ := .Files.Glob "rules/*.rules.yml" }}
{{- $name := base $path | trimSuffix ".rules.yml" | trimPrefix "kafka-twin-" }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "kafka-twin.fullname" $ }}-{{ $name }}
  labels:
    {{- include "kafka-twin.labels" $ | nindent 4 }}
    {{- with include "kafka-twin.monitoringLabels" $ }}
    {{- . | trim | nindent 4 }}
    {{- end }}
spec:
  {{- $.Files.Get $path | nindent 2 }}
{{- end }}
{{- end }}
"""

DASHBOARDS: Final = """\
{{- if .Values.dashboards.enabled }}
{{- range $path, $_ := .Files.Glob "dashboards/*.json" }}
{{- $name := base $path | trimSuffix ".json" | trimPrefix "kafka-twin-" }}
---
{{- if eq $.Values.dashboards.kind "ConfigMap" }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "kafka-twin.fullname" $ }}-{{ $name }}-dashboard
  labels:
    {{- include "kafka-twin.labels" $ | nindent 4 }}
    {{- with $.Values.dashboards.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $.Values.dashboards.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  {{ base $path }}: {{ $.Files.Get $path | toJson }}
{{- else }}
apiVersion: grafana.integreatly.org/v1beta1
kind: GrafanaDashboard
metadata:
  name: {{ include "kafka-twin.fullname" $ }}-{{ $name }}
  labels:
    {{- include "kafka-twin.labels" $ | nindent 4 }}
spec:
  folder: {{ $.Values.dashboards.folder | quote }}
  instanceSelector:
    {{- toYaml $.Values.dashboards.instanceSelector | nindent 4 }}
  json: {{ $.Files.Get $path | toJson }}
{{- end }}
{{- end }}
{{- end }}
"""
