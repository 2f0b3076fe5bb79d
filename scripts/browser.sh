#!/bin/sh
# Under CI=true, install Chromium for the tests of the report page. Elsewhere those tests are skipped without a browser.
set -eu
if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || [ "${CI:-}" != "true" ]; then
  exit 0
fi
echo "== installing Chromium (for the tests of the report page)"
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null
