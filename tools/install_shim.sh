#!/bin/sh
# Install an interposing library under a name of its version, with a link of the plain name:
#   LIB.so -> LIB.so.VERSION
# Programs of running jobs have the versioned file in their preload; another version lies beside it,
# and the same version is replaced in one step, so that no program meets half a file or none.
#
#   tools/install_shim.sh LIBRARY VERSION FOLDER      (Meson sets MESON_INSTALL_DESTDIR_PREFIX)
set -eu
library=$1
version=$2
folder=$MESON_INSTALL_DESTDIR_PREFIX/$3
name=$(basename "$library")
mkdir -p "$folder"
cp "$library" "$folder/.$name.new"
chmod 755 "$folder/.$name.new"
mv -f "$folder/.$name.new" "$folder/$name.$version"
ln -sf "$name.$version" "$folder/.$name.link"
mv -f "$folder/.$name.link" "$folder/$name"
[ -n "${MESON_INSTALL_QUIET:-}" ] || echo "Installing $name.$version to $folder"
