// Document: headings, text, tables and figures that become the body of a page (page.h), or Markdown beside its figures.
// All text is plain: what is special in HTML or Markdown is escaped here, and nowhere else.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace engram {

struct Heading {
  int level = 2;  // 1 to 4
  std::string text;
};

struct Paragraph {
  std::string text;
  bool answer = false;  // is what a reader came for
};

// The place of what a page draws from its data; once in a document.
struct Charts {};

// What lies between the two is folded away under the summary.
struct FoldBegin {
  std::string summary;
};
struct FoldEnd {};

struct BulletList {
  std::vector<std::string> items;
};

struct TextTable {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // of as many cells as the header; a cell may have several lines
  int text_columns = 1;                        // the first so many are flush left, the others flush right
};

struct Figure {
  std::string name;     // file name without its ending
  std::string caption;  // also what is read aloud instead of it
  std::string svg;      // contents of the files; may be empty
  std::string png;
  std::string missing = {};  // why there is no picture, if there is none
  bool paper = false;        // for Markdown and papers alone: a page draws it itself
};

struct CodeBlock {
  std::string text;
  std::string summary;  // if not empty, the block is folded away under it in HTML
};

class Document {
 public:
  using Block = std::variant<Heading, Paragraph, Charts, FoldBegin, FoldEnd, BulletList, TextTable, Figure, CodeBlock>;

  explicit Document(std::string title) : title_(std::move(title)) {}
  void add(Block block) { blocks_.push_back(std::move(block)); }

  // Why the first of the figures that have no picture has none; empty where all have one.
  std::string why_figures_are_missing() const;

  const std::string& title() const { return title_; }
  // The elements of a page's body, with the pictures inside.
  std::string to_html() const;
  // Refers to figures as FIGURES/NAME.svg, or NAME.png where there is no SVG.
  std::string to_markdown(const std::string& figures) const;

 private:
  std::string title_;
  std::vector<Block> blocks_;
};

std::string html_escaped(const std::string& text);

}  // namespace engram
