//! Pictures as PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The text is no SVG.
    #[error("the picture is no SVG: {0}")]
    Svg(String),
    /// The picture has no size, or one that does not fit into memory.
    #[error("the picture of {width} x {height} pixels cannot be drawn")]
    Size {
        /// Its width.
        width: f32,
        /// Its height.
        height: f32,
    },
    /// The pixels could not be encoded.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(String),
}

/// An SVG of this crate as PNG, `scale` pixels a unit, with the font DejaVu Sans.
///
/// # Errors
/// When it is no SVG, or too large.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let mut options = Options {
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = Tree::from_str(svg, &options).map_err(|e| PngError::Svg(e.to_string()))?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or(PngError::Size { width, height })?;
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|e| PngError::Encoding(e.to_string()))
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
        assert!(has(0x00, 0x72, 0xb2) && has(255, 255, 255) && has(0x1a, 0x1a, 0x1a));
        assert!(png("no picture", 1.0).is_err());
    }
}
