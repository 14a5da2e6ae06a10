#!/usr/bin/env bash
# Makes the text of text.md from packages of Debian 12, the same bytes wherever they are downloaded:
#
#   bash docs/figures/text.sh text.txt
#
# Nearly half is documentation in English, the rest sources in C, C++ and Python. Files stand in the order of their
# hashes and each content once, so that training, validation and test, which are cut one behind the other, are of one
# kind. What is downloaded (120 MB) and unpacked (1.6 GB) is in a temporary folder and removed.
set -euo pipefail
export LC_ALL=C

packages=(
  python3.11-doc=3.11.2-6+deb12u8 perl-doc=5.36.0-7+deb12u3 git-doc=1:2.39.5-0+deb12u3 cmake-doc=3.25.1-1
  vim-runtime=2:9.0.1378-2+deb12u2 manpages=6.03-2 manpages-dev=6.03-2 llvm-14-doc=1:14.0.6-12
  clang-14-doc=1:14.0.6-12 ghc-doc=9.0.2-4 python-pandas-doc=1.5.3+dfsg-2 rust-src=1.63.0+dfsg1-2
  glibc-source=2.36-9+deb12u14 libeigen3-dev=3.4.0-4 mercurial-common=6.3.2-1+deb12u1 python3-networkx=2.8.8-1
  python3-sklearn=1.2.1+dfsg-1 ansible-core=2.14.18-0+deb12u2)
documentation='txt|rst|texi|md|pod|[2-8]'
sources='c|h|cc|cpp|hpp|py'
sha256=9a04fd774b6001b970b9f3a4bd7c9b8995357e2849e9179dd3dcba3bcb94bd79

output=$(realpath "${1:?names no file to write}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
if ! apt-get download "${packages[@]}" >download.log 2>&1; then
  cat download.log >&2
  exit 1
fi
for package in *.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --one-top-level=files/"${package%%_*}"
done
find files -name '*.tar.xz' -execdir tar -xf {} \;
find files -type f -name '*.gz' -exec gunzip -qf {} +

# Short files are little but their licence, and very long ones tables. grep names the files without a line that is not
# UTF-8; its exit status says whether there are others.
find files -type f -regextype egrep -regex ".*\.($documentation|$sources)" -size +3999c -size -200001c -print0 |
  { LC_ALL=C.UTF-8 xargs -0 grep -axLv '.*' || true; } | tr '\n' '\0' | xargs -0 sha256sum | sort -u -k 1,1 >list
cut -c 67- list | tr '\n' '\0' | xargs -0 cat >"$output"
echo "$(wc -l <list) files, $(wc -c <"$output") bytes, of which the first 100 million are kept"
truncate -s '<100000000' "$output"
sha256sum "$output"
if ! sha256sum --status -c <<<"$sha256  $output"; then
  echo "text: another text than that of docs/figures/text.md, whose sha256 is $sha256" >&2
  exit 1
fi
