#!/opt/kafka-twin/venv/bin/python
"""kafka-twin-fresh [PORT]: success if what the exporter here (9410) serves is fresh; else why not.

By HTTP, and by TLS if that is what it speaks. Its certificate is that of another name than this.
"""

import ssl
import sys
import urllib.error
import urllib.request

port = sys.argv[1] if len(sys.argv) > 1 else "9410"
anybody = ssl.create_default_context()
anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
direct = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=anybody)
)
why: object = ""
for scheme in ("http", "https"):
    try:
        direct.open(f"{scheme}://127.0.0.1:{port}/healthz", timeout=2).close()
        sys.exit()
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode().strip())
    except OSError as error:
        why = error
    except Exception as error:  # http.client's, of a port that speaks TLS
        why = error
sys.exit(f"no answer at port {port}: {why}")
