#!/bin/sh
# slim.sh VENV: removes what the collector, the exporter and the tap never load. They use Arrow's tables, compute and IPC;
# its wheel brings RPC, object stores, file formats, headers and tests as well, two thirds of its size.
set -eu
cd "$1"/lib/python3*/site-packages
find . -type d \( -name tests -o -name test -o -name __pycache__ \) -prune -exec rm -rf {} +
find . -name '*.pyi' -delete
rm -rf numpy/f2py numpy/distutils numpy/_core/include numpy/_core/lib numpy/random/lib
# The library knows 400 services of AWS; what gives credentials are these.
find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} +
rm -rf boto3/data boto3/examples
cd pyarrow
rm -rf include src
rm -f *.pxd *.pxi *.pyx *.cc
# A wheel cannot hold links, so each library is there under three names; programs look for the one with the version.
for library in lib*.so.*.*.*; do
  rm -f "$library" "${library%%.so*}.so"
done
rm -f libarrow_flight* libarrow_python_flight* libarrow_python_parquet* libarrow_s3* _pyarrow_cpp_tests* \
  _flight* _s3fs* _azurefs* _gcsfs* _hdfs* _orc* _parquet* _dataset* _substrait* _acero*
# These are named by the others, which use nothing of them.
for unused in libarrow_substrait libarrow_dataset libarrow_acero libparquet; do
  for file in $unused.so.*; do
    for other in *.so *.so.*; do
      [ "$other" = "$file" ] || patchelf --remove-needed "$file" "$other"
    done
    rm "$file"
  done
done
strip --strip-unneeded libarrow*.so.* ./*.so
strip --strip-unneeded ../lz4/*.so ../lz4/*/*.so ../numpy/_core/*.so ../numpy/random/*.so ../numpy/linalg/*.so
cd / # here, Arrow's types.py would be taken for Python's
"$1"/bin/python -c 'import aws_msk_iam_sasl_signer.MSKAuthTokenProvider, lz4.frame, numpy.linalg, numpy.random, numpy.typing, pyarrow.compute, pyarrow.ipc'
