//! The code generated from `proto/` is checked in, so that nobody needs a
//! compiler for it. This generates it again and compares.
//!
//! After a change of the protocol: `BLOX_REGENERATE=1 cargo test -p blox-cluster --test generated`.

use prost::Message;
use std::path::Path;

#[test]
fn the_generated_code_is_that_of_the_protocol() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("proto");
    let files = protox::compile(["blox.cluster.v1.proto"], [&proto]).unwrap();
    let descriptor = files.encode_to_vec();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .btree_map(".")
        .build_transport(true)
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    let fresh = std::fs::read_to_string(out.path().join("blox.cluster.v1.rs")).unwrap();
    let checked_in = root.join("src/wire/generated.rs");
    let described = root.join("src/wire/descriptor.bin");
    if std::env::var_os("BLOX_REGENERATE").is_some() {
        std::fs::write(&checked_in, &fresh).unwrap();
        std::fs::write(&described, &descriptor).unwrap();
    }
    let found = std::fs::read_to_string(&checked_in).unwrap_or_default();
    assert!(
        found == fresh,
        "src/wire/generated.rs is not that of proto/: see this test's first lines"
    );
    assert!(
        std::fs::read(&described).unwrap_or_default() == descriptor,
        "src/wire/descriptor.bin is not that of proto/: see this test's first lines"
    );
}
