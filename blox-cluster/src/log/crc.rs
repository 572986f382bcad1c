//! CRC-32C (Castagnoli), reflected, as in iSCSI (RFC 3720).

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 {
                (c >> 1) ^ POLYNOMIAL
            } else {
                c >> 1
            };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |c: u32, b: &u8| TABLE[((c ^ u32::from(*b)) & 0xff) as usize] ^ (c >> 8);
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
