//! Charts as PDF, for papers: one page of the size of the figure, text as text, and the font inside.
//!
//! The file follows ISO 32000-1 (PDF 1.5): a content stream of paths (8.5) and of text by glyph (9.4.3), with the font as a
//! `CIDFontType2` of Identity-H (9.7.4), and a `ToUnicode` map (9.10.3), so that text can be searched and copied.
//! The same chart gives the same bytes.

use super::canvas::{LINE_PER_EM, Typeface};
use ab_glyph::{Font, FontRef, GlyphId};
use longwave_core::Error;
use plotters::style::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;

/// Half the height of small letters: what lies between the middle of a text and its base line, in parts of its size.
const MIDDLE: f64 = 0.27;
/// A circle as four Bézier curves: how far their control points lie from the ends, in radii.
const ROUND: f64 = 0.5523;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// Draws into a PDF, which is whole once the drawing is presented.
pub(super) struct PdfBackend<'a> {
    out: &'a mut Vec<u8>,
    /// Width and height, in units.
    size: (u32, u32),
    /// Points of 1/72 inch a unit.
    scale: f64,
    typeface: Typeface,
    font: FontRef<'static>,
    content: String,
    /// The glyphs in use, and what they stand for.
    glyphs: BTreeMap<u16, char>,
}

impl<'a> PdfBackend<'a> {
    /// A page of `size` units, each of `scale` points.
    pub(super) fn new(
        out: &'a mut Vec<u8>,
        size: (u32, u32),
        scale: f64,
        typeface: Typeface,
    ) -> Result<Self, Error> {
        let font = typeface.font()?;
        Ok(Self { out, size, scale, typeface, font, content: String::new(), glyphs: BTreeMap::new() })
    }

    fn line(&mut self, text: &str) {
        self.content += text;
        self.content.push('\n');
    }

    fn path(&mut self, places: impl IntoIterator<Item = BackendCoord>) {
        for (index, (x, y)) in places.into_iter().enumerate() {
            let operator = if index == 0 { 'm' } else { 'l' };
            let _ = writeln!(self.content, "{x} {y} {operator}");
        }
    }

    fn colour(&mut self, colour: BackendColor, operator: &str) {
        let part = |part: u8| number(f64::from(part) / 255.0);
        let (r, g, b) = colour.rgb;
        let line = format!("{} {} {} {operator}", part(r), part(g), part(b));
        self.line(&line);
    }

    fn stroke<S: BackendStyle>(&mut self, style: &S) {
        let colour = style.color();
        self.colour(colour, "RG");
        let line = format!("{} w", style.stroke_width());
        self.line(&line);
    }

    /// Ends a path: filled or stroked.
    fn paint<S: BackendStyle>(&mut self, places: Vec<BackendCoord>, style: &S, fill: bool) {
        if style.color().alpha > 0.0 && places.len() > 1 {
            if fill {
                self.colour(style.color(), "rg");
            } else {
                self.stroke(style);
            }
            self.path(places);
            self.line(if fill { "f" } else { "S" });
        }
    }

    /// The glyphs of a text, and its width in parts of its size.
    fn shaped(&mut self, text: &str) -> (String, f64) {
        let em = f64::from(self.font.units_per_em().unwrap_or(1000.0));
        let (mut hex, mut width) = (String::new(), 0.0);
        for sign in text.chars() {
            let glyph = self.font.glyph_id(sign);
            self.glyphs.entry(glyph.0).or_insert(sign);
            width += f64::from(self.font.h_advance_unscaled(glyph)) / em;
            let _ = write!(hex, "{:04X}", glyph.0);
        }
        (hex, width)
    }

    /// The file: objects, the table of where they are, and the trailer.
    fn file(&self) -> Vec<u8> {
        let points = |units: u32| number(f64::from(units) * self.scale);
        let (width, height) = (points(self.size.0), points(self.size.1));
        let scale = number(self.scale);
        // From units with y downwards to points with y upwards; lines end and meet round.
        let content = format!("{scale} 0 0 -{scale} 0 {height} cm\n1 J 1 j\n{}", self.content).into_bytes();
        let name = format!("/{}", self.typeface.name());
        let cid_font = format!(
            "<< /Type /Font /Subtype /CIDFontType2 /BaseFont {name} /CIDSystemInfo << /Registry (Adobe) /Ordering \
             (Identity) /Supplement 0 >> /FontDescriptor 7 0 R /CIDToGIDMap /Identity /W [{}] >>",
            self.widths()
        );
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R /Resources << /Font << /F1 5 0 R \
             >> >> >>"
        );
        let font = format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont {name} /Encoding /Identity-H /DescendantFonts [6 0 R] /ToUnicode 9 0 R \
             >>"
        );
        let objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            page.into_bytes(),
            stream("", &content),
            font.into_bytes(),
            cid_font.into_bytes(),
            self.descriptor(&name).into_bytes(),
            stream(&format!("/Length1 {} ", self.typeface.bytes.len()), self.typeface.bytes),
            stream("", self.to_unicode().as_bytes()),
        ];
        assemble(&objects)
    }

    /// What a reader of the file has to know of the font.
    fn descriptor(&self, name: &str) -> String {
        let per_mille = self.per_mille();
        let (ascent, descent) = (self.font.ascent_unscaled(), self.font.descent_unscaled());
        format!(
            "<< /Type /FontDescriptor /FontName {name} /Flags 32 /FontBBox [{low} {low} {high} {high}] /ItalicAngle 0 \
             /Ascent {} /Descent {} /CapHeight {} /StemV 80 /FontFile2 8 0 R >>",
            number(f64::from(ascent) * per_mille),
            number(f64::from(descent) * per_mille),
            number(0.8 * f64::from(ascent) * per_mille),
            low = -1000,
            high = 2000,
        )
    }

    /// Units of the font in thousandths of its size.
    fn per_mille(&self) -> f64 {
        1000.0 / f64::from(self.font.units_per_em().unwrap_or(1000.0))
    }

    fn widths(&self) -> String {
        let width = |glyph: u16| f64::from(self.font.h_advance_unscaled(GlyphId(glyph))) * self.per_mille();
        let entries: Vec<String> =
            self.glyphs.keys().map(|&glyph| format!("{glyph} [{}]", number(width(glyph)))).collect();
        entries.join(" ")
    }

    fn to_unicode(&self) -> String {
        let mut map = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CIDSystemInfo << /Registry (Adobe) \
             /Ordering (UCS) /Supplement 0 >> def\n/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n1 \
             begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
            .to_owned();
        // A section holds a hundred at most.
        for section in self.glyphs.iter().collect::<Vec<_>>().chunks(100) {
            let _ = writeln!(map, "{} beginbfchar", section.len());
            for (glyph, sign) in section {
                let mut units = [0; 2];
                let codes = sign.encode_utf16(&mut units).iter().map(|unit| format!("{unit:04X}"));
                let code = codes.collect::<Vec<_>>().concat();
                let _ = writeln!(map, "<{glyph:04X}> <{code}>");
            }
            map += "endbfchar\n";
        }
        map + "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
    }
}

impl DrawingBackend for PdfBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        *self.out = self.file();
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        self.fill_polygon([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)], &colour)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.paint(vec![from, to], style, false);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
        self.paint(corners.into(), style, fill);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.paint(path.into_iter().collect(), style, false);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        places: I,
        style: &S,
    ) -> Drawn {
        self.paint(places.into_iter().collect(), style, true);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        if fill {
            self.colour(style.color(), "rg");
        } else {
            self.stroke(style);
        }
        let (x, y, r) = (f64::from(x), f64::from(y), f64::from(radius));
        let place = |dx: f64, dy: f64| format!("{} {}", number(x + dx * r), number(y + dy * r));
        let mut line = format!("{} m", place(1.0, 0.0));
        for (from, to) in [
            ((1.0, 0.0), (0.0, 1.0)),
            ((0.0, 1.0), (-1.0, 0.0)),
            ((-1.0, 0.0), (0.0, -1.0)),
            ((0.0, -1.0), (1.0, 0.0)),
        ] {
            let (a, b): ((f64, f64), (f64, f64)) = (from, to);
            let first = place(a.0 + ROUND * b.0, a.1 + ROUND * b.1);
            let second = place(b.0 + ROUND * a.0, b.1 + ROUND * a.1);
            let _ = write!(line, "\n{first} {second} {} c", place(b.0, b.1));
        }
        self.line(&line);
        self.line(if fill { "f" } else { "S" });
        Ok(())
    }

    /// Texts lie horizontally, with their middle height at the place: nothing else is asked for here.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let size = style.size() / LINE_PER_EM;
        let (glyphs, width) = self.shaped(text);
        let left = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -0.5 * width * size,
            HPos::Right => -width * size,
        };
        self.colour(style.color(), "rg");
        let line = format!(
            "BT /F1 {} Tf 1 0 0 -1 {} {} Tm <{glyphs}> Tj ET",
            number(size),
            number(f64::from(x) + left),
            number(f64::from(y) + MIDDLE * size)
        );
        self.line(&line);
        Ok(())
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn stream(entries: &str, bytes: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {entries}/Length {} >>\nstream\n", bytes.len()).into_bytes();
    object.extend_from_slice(bytes);
    object.extend_from_slice(b"\nendstream");
    object
}

fn assemble(objects: &[Vec<u8>]) -> Vec<u8> {
    // The second line says that the file is not text.
    let mut file = b"%PDF-1.5\n%\xE2\xE3\xCF\xD3\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (index, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        file.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let start = file.len();
    file.extend_from_slice(table.as_bytes());
    let trailer =
        format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1);
    file.extend_from_slice(trailer.as_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [number(1.0), number(0.25), number(-0.123_46), number(100.0)],
            ["1", "0.25", "-0.1235", "100"]
        );
    }

    #[test]
    fn the_table_points_at_every_object() {
        let file = assemble(&[b"<< /A 1 >>".to_vec(), stream("", b"x")]);
        let text = String::from_utf8_lossy(&file).into_owned();
        let start: usize = text.lines().rev().nth(1).unwrap().parse().unwrap();
        let at = |text: &[u8], place: usize| String::from_utf8_lossy(&text[place..place + 7]).into_owned();
        assert!(at(&file, start).starts_with("xref"));
        let places = text.lines().filter_map(|line| line.strip_suffix(" 00000 n "));
        for (index, place) in places.enumerate() {
            assert_eq!(at(&file, place.parse().unwrap()), format!("{} 0 obj", index + 1));
        }
    }
}
