//! Reads an SVG of this crate, with the font that this crate embeds.

use resvg::usvg::{Options, Tree};

/// An error of a conversion to PNG or PDF.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The text is not SVG.
    #[error("the picture is no SVG: {0}")]
    Svg(String),
    /// The SVG has an element that a PDF cannot have.
    #[error("the picture has {0}, expected shapes and text in plain colours")]
    Unsupported(&'static str),
    /// The picture has no size, or does not fit into memory.
    #[error("the picture of {width} x {height} pixels cannot be drawn")]
    Size {
        /// The width in pixels.
        width: f32,
        /// The height in pixels.
        height: f32,
    },
    /// The picture cannot be encoded or compressed.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(#[from] std::io::Error),
}

/// Parses an SVG. Text has the font DejaVu Sans, also on machines without that font. `style` replaces
/// colours of the SVG.
pub(crate) fn tree(svg: &str, style: Option<&str>) -> Result<Tree, ConversionError> {
    let mut options = Options {
        style_sheet: style.map(str::to_owned),
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Tree::from_str(svg, &options).map_err(|e| ConversionError::Svg(e.to_string()))
}
