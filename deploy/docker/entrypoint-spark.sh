#!/usr/bin/env bash
# What a container of the query runs: kafka-twin with the arguments given, or one of the two roles that Spark on
# Kubernetes asks of an image, by variables that it sets: driver ARGUMENTS-OF-SPARK-SUBMIT, executor.
set -euo pipefail
connector=/opt/kafka-twin/jars/spark/*:/opt/kafka-twin/jars/iam/* # Amazon MSK's login, which others never load
python=/opt/kafka-twin/venv/bin/python
if ! getent passwd "$(id -u)" > /dev/null; then # the module takes no entry with a group below 500
  printf 'user-%s:x:%s:10001::/tmp:/usr/sbin/nologin\n' "$(id -u)" "$(id -u)" > /tmp/.passwd
fi
case ${1:-} in
  driver)
    shift
    export PYSPARK_PYTHON=$python PYSPARK_DRIVER_PYTHON=$python
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS:-0.0.0.0}" \
      --driver-class-path "$connector" "$@"
    ;;
  executor)
    options=()
    while IFS= read -r -d '' variable; do # SPARK_JAVA_OPT_0=..., in their order
      options+=("${variable#*=}")
    done < <(env -0 | grep -z '^SPARK_JAVA_OPT_[0-9]*=' | sort -z -t_ -k4 -n)
    export PYSPARK_PYTHON=$python
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:$connector" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec kafka-twin "$@"
    ;;
esac
