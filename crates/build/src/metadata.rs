// SPDX-License-Identifier: GPL-2.0-or-later
//! Debug information in LLVM IR: the types of the scheduler's globals, maps and kernel structs. The BTF of the BPF
//! object is made from the very same nodes.

use crate::ir::split_top;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Nodes by number, unparsed.
#[derive(Debug, Default)]
pub struct Metadata<'a> {
    nodes: HashMap<u32, &'a str>,
    lines: Vec<&'a str>,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub ty: u32,
    pub offset_bits: u64,
    pub size_bits: u64,
    pub bit_field: bool,
}

/// What a type is once typedefs and qualifiers are off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Signed(u64),
    Unsigned(u64),
    Bool(u64),
    Pointer(u32),
    /// Element type and count.
    Array(u32, u64),
    /// Struct or union: its node.
    Composite(u32),
    Other,
}

impl<'a> Metadata<'a> {
    /// All of it, as it was read.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Takes one line `!12 = ...`.
    pub fn add(&mut self, line: &'a str) {
        self.lines.push(line);
        let Some((number, body)) = line[1..].split_once(" = ") else {
            return;
        };
        if let Ok(number) = number.parse() {
            self.nodes
                .insert(number, body.strip_prefix("distinct ").unwrap_or(body));
        }
    }

    fn body(&self, node: u32) -> &'a str {
        self.nodes.get(&node).copied().unwrap_or("")
    }

    /// Value of `key:` in a node, as written.
    pub fn field(&self, node: u32, key: &str) -> Option<&'a str> {
        let body = self.body(node);
        let inside = &body[body.find('(')? + 1..body.rfind(')')?];
        split_top(inside, ',')
            .into_iter()
            .find_map(|part| part.strip_prefix(key)?.strip_prefix(": "))
    }

    pub fn name(&self, node: u32) -> Option<&'a str> {
        Some(self.field(node, "name")?.trim_matches('"'))
    }

    pub fn node(&self, node: u32, key: &str) -> Option<u32> {
        self.field(node, key)?.strip_prefix('!')?.parse().ok()
    }

    fn number(&self, node: u32, key: &str) -> u64 {
        self.field(node, key)
            .and_then(|v| v.parse().ok())
            .unwrap_or(0)
    }

    fn is(&self, node: u32, kind: &str) -> bool {
        self.body(node).starts_with(kind)
    }

    /// Nodes in a list `!{!1, !2}`.
    pub fn list(&self, node: u32) -> Vec<u32> {
        let body = self
            .body(node)
            .trim_start_matches("!{")
            .trim_end_matches('}');
        body.split(", ")
            .filter_map(|n| n.strip_prefix('!')?.parse().ok())
            .collect()
    }

    /// The type of the global variable behind a `!dbg` of a global.
    pub fn variable_type(&self, expression: u32) -> Option<u32> {
        self.node(self.node(expression, "var")?, "type")
    }

    /// Name of the file that a node was declared in.
    pub fn file(&self, node: u32) -> Option<&'a str> {
        Some(
            self.field(self.node(node, "file")?, "filename")?
                .trim_matches('"'),
        )
    }

    /// Path of the file that a node was declared in. Its name alone is cut at what the compiler's working folder and
    /// the file have in common.
    pub fn path(&self, node: u32) -> Option<PathBuf> {
        let file = self.node(node, "file")?;
        let folder = self.field(file, "directory")?.trim_matches('"');
        Some(Path::new(folder).join(self.file(node)?))
    }

    /// File and line of a source location, as `main.bpf.c:12`.
    pub fn place(&self, location: u32) -> Option<String> {
        let scope = self.node(location, "scope")?;
        let file = self.file(scope)?;
        let name = file.rsplit('/').next().unwrap_or(file);
        Some(format!("{name}:{}", self.field(location, "line")?))
    }

    fn tag(&self, node: u32) -> &'a str {
        self.field(node, "tag").unwrap_or("")
    }

    /// Takes typedefs and qualifiers off.
    pub fn strip(&self, mut ty: u32) -> u32 {
        while matches!(
            self.tag(ty),
            "DW_TAG_typedef"
                | "DW_TAG_const_type"
                | "DW_TAG_volatile_type"
                | "DW_TAG_restrict_type"
                | "DW_TAG_atomic_type"
        ) {
            match self.node(ty, "baseType") {
                Some(base) => ty = base,
                None => break,
            }
        }
        ty
    }

    /// Whether a variable is `const volatile`, on whatever level of typedefs and arrays it says so.
    pub fn is_const_volatile(&self, mut ty: u32) -> bool {
        let (mut is_const, mut is_volatile) = (false, false);
        loop {
            match self.tag(ty) {
                "DW_TAG_const_type" => is_const = true,
                "DW_TAG_volatile_type" => is_volatile = true,
                "DW_TAG_typedef" | "DW_TAG_array_type" => {}
                _ => return is_const && is_volatile,
            }
            match self.node(ty, "baseType") {
                Some(base) => ty = base,
                None => return is_const && is_volatile,
            }
        }
    }

    pub fn shape(&self, ty: u32) -> Shape {
        let ty = self.strip(ty);
        let base = self.node(ty, "baseType");
        let bytes = self.number(ty, "size") / 8;
        match self.tag(ty) {
            "DW_TAG_pointer_type" => Shape::Pointer(base.unwrap_or(0)),
            "DW_TAG_array_type" => Shape::Array(base.unwrap_or(0), self.array_count(ty)),
            "DW_TAG_structure_type" | "DW_TAG_union_type" => Shape::Composite(ty),
            "DW_TAG_enumeration_type" => base.map_or(Shape::Unsigned(bytes), |b| self.shape(b)),
            _ if self.is(ty, "!DIBasicType") => match self.field(ty, "encoding") {
                Some("DW_ATE_boolean") => Shape::Bool(bytes),
                Some("DW_ATE_signed" | "DW_ATE_signed_char") => Shape::Signed(bytes),
                _ => Shape::Unsigned(bytes),
            },
            _ => Shape::Other,
        }
    }

    /// Number of elements over all dimensions; 0 for a flexible array.
    fn array_count(&self, array: u32) -> u64 {
        let dimensions = self
            .node(array, "elements")
            .map(|n| self.list(n))
            .unwrap_or_default();
        let count = |d: u32| {
            self.field(d, "count")
                .and_then(|c| c.parse().ok())
                .unwrap_or(0)
        };
        dimensions.into_iter().map(count).product()
    }

    /// Size in bytes; 0 for an incomplete type.
    pub fn size(&self, ty: u32) -> u64 {
        match self.shape(ty) {
            Shape::Signed(bytes) | Shape::Unsigned(bytes) | Shape::Bool(bytes) => bytes,
            Shape::Pointer(_) => 8,
            Shape::Array(element, count) => self.size(element) * count,
            Shape::Composite(node) => self.number(node, "size") / 8,
            Shape::Other => 0,
        }
    }

    /// Members of a struct or union, in order.
    pub fn members(&self, composite: u32) -> Vec<Member> {
        let elements = self
            .node(composite, "elements")
            .map(|n| self.list(n))
            .unwrap_or_default();
        elements
            .into_iter()
            .filter(|&m| self.tag(m) == "DW_TAG_member")
            .map(|m| Member {
                name: self.name(m).unwrap_or("").to_owned(),
                ty: self.node(m, "baseType").unwrap_or(0),
                offset_bits: self.number(m, "offset"),
                size_bits: self.number(m, "size"),
                bit_field: self
                    .field(m, "flags")
                    .is_some_and(|f| f.contains("DIFlagBitField")),
            })
            .collect()
    }

    /// Struct and union definitions with this name.
    pub fn structs_named(&self, name: &str) -> Vec<u32> {
        let quoted = format!("name: \"{name}\"");
        let is_it = |body: &str| body.starts_with("!DICompositeType") && body.contains(&quoted);
        let mut found: Vec<u32> = self
            .nodes
            .iter()
            .filter(|(_, body)| is_it(body))
            .map(|(&n, _)| n)
            .collect();
        found.retain(|&n| self.name(n) == Some(name) && self.node(n, "elements").is_some());
        found.sort_unstable();
        found
    }

    /// Whether a dotted path of members leads anywhere, anonymous structs and unions looked through.
    pub fn has_member(&self, composite: u32, path: &str) -> bool {
        let (first, rest) = path
            .split_once('.')
            .map_or((path, None), |(f, r)| (f, Some(r)));
        self.members(composite)
            .iter()
            .any(|m| match (self.shape(m.ty), rest) {
                (Shape::Composite(inner), _) if m.name.is_empty() => self.has_member(inner, path),
                (Shape::Composite(inner), Some(rest)) => {
                    m.name == first && self.has_member(inner, rest)
                }
                (_, None) => m.name == first,
                _ => false,
            })
    }

    /// Enumerators of an enum, in order: name and value.
    pub fn enumerators(&self, ty: u32) -> Vec<(&'a str, i128)> {
        let elements = self
            .node(self.strip(ty), "elements")
            .map(|n| self.list(n))
            .unwrap_or_default();
        elements
            .into_iter()
            .filter_map(|e| Some((self.name(e)?, self.field(e, "value")?.parse().ok()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = r#"!1 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "s", file: !9, line: 1, size: 96, elements: !2)
!2 = !{!3, !4}
!3 = !DIDerivedType(tag: DW_TAG_member, name: "a", scope: !1, file: !9, line: 2, baseType: !5, size: 32)
!4 = !DIDerivedType(tag: DW_TAG_member, name: "b", scope: !1, file: !9, line: 3, baseType: !6, size: 64, offset: 32)
!5 = !DIBasicType(name: "unsigned int", size: 32, encoding: DW_ATE_unsigned)
!6 = !DICompositeType(tag: DW_TAG_array_type, baseType: !5, size: 64, elements: !7)
!7 = !{!8}
!8 = !DISubrange(count: 2)
!9 = !DIFile(filename: "x, y.c", directory: "/")
!10 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !11)
!11 = !DIDerivedType(tag: DW_TAG_volatile_type, baseType: !12)
!12 = !DIDerivedType(tag: DW_TAG_typedef, name: "u32", file: !9, line: 4, baseType: !5)"#;

    fn nodes() -> Metadata<'static> {
        let mut metadata = Metadata::default();
        NODES.lines().for_each(|l| metadata.add(l));
        metadata
    }

    #[test]
    fn struct_members_have_offsets_and_sizes() {
        let m = nodes();
        let members = m.members(1);
        assert_eq!(members[1].name, "b");
        assert_eq!((members[1].offset_bits, m.size(members[1].ty)), (32, 8));
        assert_eq!(m.shape(members[1].ty), Shape::Array(5, 2));
        assert_eq!(m.file(1), Some("x, y.c"));
    }

    #[test]
    fn tunables_are_const_volatile_in_either_order() {
        let m = nodes();
        assert!(m.is_const_volatile(10));
        assert!(!m.is_const_volatile(11));
        assert_eq!(m.shape(10), Shape::Unsigned(4));
    }
}
