//! Logarithms and powers to seven digits, to find the candidates worth an exact computation.

/// Returns the logarithm to base 2 of a positive normal number.
pub(super) fn log2(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    // Starts at half the square root of 2, so that the series is short.
    const HALF_ROOT: u64 = 0x0009_5f61_9980_c433;
    let bits = x.to_bits().wrapping_add(HALF_ROOT);
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(
        (bits & MANTISSA)
            .wrapping_add(1023 << 52)
            .wrapping_sub(HALF_ROOT),
    );
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let q = s * s;
    let series = 1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0)));
    exponent as f64 + 2.0 * std::f64::consts::LOG2_E * s * series
}

/// Returns 2 to the power of a number whose result is normal.
pub(super) fn exp2(x: f64) -> f64 {
    let whole = (x + 1024.5) as i64 - 1024;
    let f = (x - whole as f64) * std::f64::consts::LN_2;
    let tail = 1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0 + f / 720.0));
    let series = 1.0 + f * (1.0 + f * (0.5 + f * tail));
    series * f64::from_bits(((whole + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_right_to_six_digits() {
        let mut x = 1e-90;
        while x < 1e90 {
            let (rough, exact) = (log2(x), libm::log2(x));
            assert!((rough - exact).abs() < 1e-7, "{x}: {rough} {exact}");
            let back = exp2(exact);
            assert!((back / x - 1.0).abs() < 1e-6, "{x}: {back}");
            x *= 1.37;
        }
    }
}
