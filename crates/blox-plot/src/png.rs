//! Pictures as PNG.

use crate::parsed::{self, ConversionError};
use resvg::tiny_skia::{Pixmap, Transform};

/// Converts an SVG of this crate to PNG, with `scale` pixels for each unit and the font
/// DejaVu Sans. The picture is transparent, with colours for white and dark pages. The same SVG gives the
/// same bytes.
///
/// # Errors
/// The text is not SVG, or the picture is too large.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, ConversionError> {
    let tree = parsed::tree(svg, None)?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or(ConversionError::Size { width, height })?;
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    Ok(pixels.encode_png().map_err(std::io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, BarChart};

    #[test]
    fn a_picture_has_pixels_of_its_colours() {
        let svg = BarChart::new("Average", Axis::new("JCT"))
            .with("fifo", [("all", 5.0)])
            .svg();
        let bytes = png(&svg, 1.0).unwrap();
        let picture = Pixmap::decode_png(&bytes).unwrap();
        let has = |r: u8, g: u8, b: u8| {
            picture
                .pixels()
                .iter()
                .any(|p| (p.red(), p.green(), p.blue()) == (r, g, b))
        };
        // A bar, text, and the transparent ground. A PNG knows no preference of its reader.
        assert!(has(0x00, 0x72, 0xb2) && has(0x62, 0x66, 0x6c) && has(0, 0, 0));
        assert!(!has(255, 255, 255) && !has(0x8a, 0x90, 0x99));
        assert_eq!(picture.pixels()[0].alpha(), 0);
        assert!(png("no picture", 1.0).is_err());
    }
}
