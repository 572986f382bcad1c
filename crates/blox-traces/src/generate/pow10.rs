//! Powers of ten with the bits of a C library.

use std::sync::OnceLock;

/// Computes `10^y` for `y` between 0 and 20, with the same bits on every machine.
///
/// The published workloads were drawn with the `pow` of glibc, which is accurate to 0.52 units in
/// the last place. The correctly rounded power, and the power of `libm`, differ from it in about 1
/// of 2000 draws. This function therefore follows the steps of glibc's algorithm for base ten. The
/// algorithm and its coefficients come from Arm's optimized routines (MIT licence). glibc uses it
/// since 2.28 on machines with fused multiply-add.
#[inline]
pub fn pow10(y: f64) -> f64 {
    // y * ln(10) in two parts.
    let high = y * LN10.0;
    let low = y.mul_add(LN10.1, y.mul_add(LN10.0, -high));
    // e^(high + low) = 2^(k/128) * e^r with |r| < ln(2)/256.
    let k = LOG2E_128.mul_add(high, SHIFT) - SHIFT;
    let r = k.mul_add(-LN2_128.1, k.mul_add(-LN2_128.0, high)) + low;
    let (root, tail) = roots()[(k as i64).rem_euclid(128) as usize];
    // Multiplies by a power of two: adds to the exponent, which cannot overflow here.
    let scale = f64::from_bits(root.to_bits() + ((k as i64).div_euclid(128) << 52) as u64);
    let r2 = r * r;
    let expm1 = r2.mul_add(r.mul_add(POLY[1], POLY[0]), tail + r);
    let expm1 = (r2 * r2).mul_add(r.mul_add(POLY[3], POLY[2]), expm1);
    scale.mul_add(expm1, scale)
}

/// ln(10), and the remainder that the algorithm uses.
const LN10: (f64, f64) = (
    f64::from_bits(0x4002_6bb1_bbb5_5516),
    f64::from_bits(0xbcaf_48ad_4820_0000),
);
/// 128 / ln(2).
const LOG2E_128: f64 = 128.0 * std::f64::consts::LOG2_E;
/// ln(2) / 128 in two parts: one with trailing zeros, so that its multiples are exact, and the
/// remainder.
const LN2_128: (f64, f64) = (
    f64::from_bits(0x3f76_2e42_fefa_0000),
    f64::from_bits(0x3d0c_f79a_bc9e_3b39),
);
/// Adding this rounds to an integer.
const SHIFT: f64 = 6_755_399_441_055_744.0;
/// Coefficients of (e^r - 1 - r) / r^2 for |r| < ln(2)/256: near 1/2, 1/6, 1/24 and 1/120.
const POLY: [f64; 4] = [
    f64::from_bits(0x3fdf_ffff_ffff_fdbd),
    f64::from_bits(0x3fc5_5555_5555_543c),
    f64::from_bits(0x3fa5_5555_cf17_2b91),
    f64::from_bits(0x3f81_1111_67a4_d017),
];

/// Returns 2^(i/128) for i below 128: the nearest number, and the relative error of that number.
fn roots() -> &'static [(f64, f64); 128] {
    static ROOTS: OnceLock<[(f64, f64); 128]> = OnceLock::new();
    ROOTS.get_or_init(|| {
        // Products of repeated square roots of two, each in two parts.
        let mut table = [(1.0, 0.0); 128];
        let mut root = (2.0, 0.0);
        for bit in (0..7).rev() {
            root = sqrt_two_parts(root);
            for (i, entry) in table.iter_mut().enumerate() {
                if i >> bit & 1 == 1 {
                    *entry = mul_two_parts(*entry, root);
                }
            }
        }
        table.map(|(high, low)| (high, low / high))
    })
}

/// Returns the product of two numbers that are each the sum of two parts.
fn mul_two_parts(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let high = a.0 * b.0;
    let low = a.0.mul_add(b.0, -high) + (a.0 * b.1 + a.1 * b.0);
    normal(high, low)
}

/// Returns the square root of a number that is the sum of two parts.
fn sqrt_two_parts(a: (f64, f64)) -> (f64, f64) {
    let high = a.0.sqrt();
    let low = ((-high).mul_add(high, a.0) + a.1) / (2.0 * high);
    normal(high, low)
}

fn normal(high: f64, low: f64) -> (f64, f64) {
    let sum = high + low;
    (sum, low - (sum - high))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected powers are from CPython's math.pow(10, y) on glibc. For the
    // last five, the correctly rounded power differs.
    #[test]
    fn powers_have_the_bits_of_glibc() {
        for (y, power) in [
            (0.0, 1.0),
            (1.5, 31.622776601683793),
            (2.0, 100.0),
            (3.0, 1000.0),
            (4.0, 10000.0),
            (3.057254237224255, 1140.9174884460717),
            (3.3544674731518236, 2261.8691288468895),
            (3.487983913914242, 3075.98287951281),
            (3.856125709442626, 7180.020917031989),
            (3.3497464368498266, 2237.414441093199),
            (3.8058124916635423, 6394.586870906078),
            (2.0097851260916997, 102.27868274813864),
            (2.3736252209667095, 236.3878882666107),
            (2.8819738797493866, 762.0331768477745),
            (3.5095466378319955, 3232.560321577207),
            (3.973632734983652, 9410.934158500197),
        ] {
            assert_eq!(pow10(y).to_bits(), f64::to_bits(power), "10^{y}");
        }
    }
}
