#!/bin/sh
# Choose the newest versions that fit pyproject.toml, for all extras, and write them down exactly.
set -eu
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$work/venv/bin/uv" pip compile --quiet --python "$bin/python" --all-extras --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links pyproject.toml >"$work/lock"
echo "setuptools" | "$work/venv/bin/uv" pip compile --quiet --python "$bin/python" --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links - >>"$work/lock"
{
  echo "# The exact versions that \`make setup\` installs, for every extra. Written by \`make lock\`."
  sort -u "$work/lock"
} >requirements.lock
echo "requirements.lock: $(grep -c == requirements.lock) packages"
