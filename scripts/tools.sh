#!/bin/sh
# Under CI=true, install Chromium (tests of the report page) and promtool (tests of the alert rules). Elsewhere the tests
# that need a missing program are skipped.
set -eu
[ "${CI:-}" = "true" ] || exit 0
packages=""
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || packages="chromium"
command -v promtool >/dev/null 2>&1 || packages="$packages prometheus"
[ -n "$packages" ] || exit 0
echo "== installing $packages"
# shellcheck disable=SC2086
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
