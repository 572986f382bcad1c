#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blox_fuzz::detect(bytes));
