//! Reads an SVG of this crate, with the font that this crate embeds.

use resvg::usvg::{Options, Tree};

/// Parses an SVG. Text has the font DejaVu Sans, also on machines without that font.
pub(crate) fn tree(svg: &str) -> Result<Tree, String> {
    let mut options = Options {
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Tree::from_str(svg, &options).map_err(|e| e.to_string())
}
