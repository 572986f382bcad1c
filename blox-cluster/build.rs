//! Generates the messages and services of `proto/` for the feature `rpc`, without `protoc`.

use std::error::Error;

#[cfg(feature = "rpc")]
fn main() -> Result<(), Box<dyn Error>> {
    use protox::prost::Message as _;
    use std::path::PathBuf;

    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let files = protox::compile(["blox.cluster.v1.proto"], ["proto"])?;
    // Descriptor for reflection.
    std::fs::write(out.join("descriptor.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .btree_map(".")
        .build_transport(true)
        .compile_fds(files)?;
    Ok(())
}

#[cfg(not(feature = "rpc"))]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
