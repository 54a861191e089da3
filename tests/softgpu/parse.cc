// PTX text is parsed into a Module (PTX ISA, "Syntax", "State Spaces, Types, and Variables", "Directives").
#include <cctype>
#include <charconv>
#include <set>
#include <unordered_map>

#include "tests/softgpu/instruction.h"
#include "tests/softgpu/scan.h"

namespace softgpu {
namespace {

constexpr uint8_t kAnyBytes = 255;

const std::string* intern(std::string_view name) {
  static std::set<std::string, std::less<>> names;
  const auto at = names.find(name);
  return &*(at != names.end() ? at : names.emplace(name).first);
}

class KernelParser {
 public:
  KernelParser(Scanner& scanner, std::set<std::string, std::less<>> shared)
      : scanner_(scanner), shared_(std::move(shared)) {}

  Kernel parse(const Statement& head) {
    s_ = head;
    take_head();
    add_specials();
    for (s_ = scanner_.next(); s_.kind != Statement::Kind::kOpen; s_ = scanner_.next())
      if (s_.text.starts_with(".maxntid") || s_.text.starts_with(".reqntid"))
        k_.max_threads = static_cast<uint32_t>(number(trim(s_.text.substr(8))));
    scopes_.emplace_back();
    while (!scopes_.empty()) {
      s_ = scanner_.next();
      take_statement();
    }
    for (auto& [at, label] : branches_) resolve(k_.code[at], label);
    define_masked();
    Instruction end;  // a kernel that runs off its end returns
    end.kind = Kind::kReturn;
    end.name = intern("ret");
    k_.code.push_back(end);
    return std::move(k_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw PtxError("line " + std::to_string(s_.line) + ": " + std::string(s_.text.substr(0, 120)) + ": " +
                   why);
  }

  void take_head() {
    const std::string_view text = s_.text;
    const size_t open = text.find('('), name = text.find(".entry") + 6;
    k_.name = trim(text.substr(name, open - name));
    if (open == text.npos) return;
    for (const std::string_view p : split_list(text.substr(open + 1))) {
      const bool wide = p.find("64") != p.npos && p.find("64") < p.rfind(' ');
      const uint32_t bytes = wide ? 8 : 4;
      k_.parameter_bytes = (k_.parameter_bytes + bytes - 1) / bytes * bytes;
      k_.parameters.push_back({k_.parameter_bytes, bytes});
      parameters_[std::string(p.substr(p.find_last_of(" \t") + 1))] = k_.parameter_bytes;
      k_.parameter_bytes += bytes;
    }
  }

  void add_specials() {
    k_.specials.push_back(fresh(4));  // register 0 stands for all constants
    for (const char* name : {"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x", "%laneid"}) {
      k_.specials.push_back(fresh(4));
      found_[name] = k_.specials.back();
    }
  }

  void take_statement() {
    switch (s_.kind) {
      case Statement::Kind::kEnd:
        fail("the text ends within a kernel");
      case Statement::Kind::kOpen:
        scopes_.emplace_back();
        return;
      case Statement::Kind::kClose:
        scopes_.pop_back();
        return;
      case Statement::Kind::kLabel:
        label_ = s_.text;
        if (!labels_.emplace(label_, static_cast<uint32_t>(k_.code.size())).second)
          fail("a label that is there already");
        return;
      case Statement::Kind::kText:
        break;
    }
    if (s_.text.starts_with(".branchtargets")) {
      for (const std::string_view to : split_list(s_.text.substr(14))) targets_[label_].emplace_back(to);
    } else if (s_.text.starts_with(".reg")) {
      take_registers();
    } else if (s_.text.starts_with('.')) {
      if (!s_.text.starts_with(".pragma")) fail("unknown directive");
    } else {
      take_instruction();
    }
  }

  void resolve(Instruction& i, const std::string& label) {
    const auto place = [&](const std::string& l) {
      const auto at = labels_.find(l);
      if (at == labels_.end()) throw PtxError("line " + std::to_string(i.line) + ": no label " + l);
      return at->second;
    };
    if (i.kind == Kind::kBranch) {
      i.target = place(label);
      return;
    }
    i.target = static_cast<uint32_t>(k_.tables.size());
    k_.tables.emplace_back();
    for (const std::string& to : targets_[label]) k_.tables.back().push_back(place(to));
  }

  // LLVM masks an undefined half of a vector out of a register that no instruction writes. Any value is right
  // for such a half. The register reads as all ones here.
  void define_masked() {
    std::vector<bool> written(k_.registers);
    for (const Operand& special : k_.specials) written[special.reg] = true;
    for (const Instruction& i : k_.code)
      for (uint32_t n = 0; n < i.results; ++n) written[k_.operands[i.first_operand + n].reg] = true;
    for (const Instruction& i : k_.code) {
      if (!i.name || *i.name != "and.b64") continue;
      Operand &masked = k_.operands[i.first_operand + 1], &mask = k_.operands[i.first_operand + 2];
      if (mask.constant && !masked.constant && !written[masked.reg]) masked = constant(~0ull, 8);
    }
  }

  Operand fresh(uint8_t bytes) {
    Operand o{k_.register_bytes, k_.registers++, bytes, false};
    k_.register_bytes += bytes == 0 ? 64 : 32u * std::max<uint32_t>(bytes, 2);
    return o;
  }

  // Parses a declaration such as ".reg .b32 %r<4431>" or ".reg .pred p".
  void take_registers() {
    const std::string_view rest = trim(s_.text.substr(4));
    const size_t space = rest.find_first_of(" \t");
    const std::string_view type = rest.substr(0, space);
    const uint8_t bytes = type == ".pred"        ? 0
                          : type.ends_with("16") ? 2
                          : type.ends_with("32") ? 4
                          : type.ends_with("64") ? 8
                                                 : kAnyBytes;
    if (bytes == kAnyBytes || space == rest.npos) fail("unknown type of registers");
    for (const std::string_view name : split_list(rest.substr(space))) {
      const size_t open = name.find('<');
      if (open == name.npos)
        scopes_.back()[std::string(name)] = fresh(bytes);
      else
        families_[std::string(name.substr(0, open))] = bytes;
    }
  }

  Operand find_register(std::string_view name) {
    const std::string key(name);
    for (size_t i = scopes_.size(); i-- > 0;)
      if (const auto at = scopes_[i].find(key); at != scopes_[i].end()) return at->second;
    if (const auto at = found_.find(key); at != found_.end()) return at->second;
    const auto family = families_.find(key.substr(0, key.find_last_not_of("0123456789") + 1));
    if (family == families_.end()) fail("no register " + key);
    return found_[key] = fresh(family->second);
  }

  uint64_t number(std::string_view s) const {
    uint64_t value = 0;
    int base = 10;
    const bool negative = s.starts_with('-');
    std::string_view digits = s.substr(negative);
    if (digits.starts_with("0f") || digits.starts_with("0F") || digits.starts_with("0x") ||
        digits.starts_with("0d"))
      digits.remove_prefix(2), base = 16;
    if (digits.ends_with('U')) digits.remove_suffix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) fail("no number: " + std::string(s));
    return negative ? ~value + 1 : value;
  }

  Operand constant(uint64_t value, uint8_t bytes) {
    if (bytes == 0) value = value ? ~0ull : 0;
    const auto [at, is_new] = constants_.emplace(std::pair(value, bytes), k_.constants.size());
    if (is_new)
      for (uint32_t n = 0; n < (bytes == 0 ? 4 : 32u * bytes); ++n)
        k_.constants.push_back(static_cast<uint8_t>(value >> 8 * (n % std::max<uint8_t>(bytes, 4))));
    if (is_new && bytes == 2)
      for (size_t n = at->second; n < k_.constants.size(); n += 2)
        k_.constants[n] = static_cast<uint8_t>(value), k_.constants[n + 1] = static_cast<uint8_t>(value >> 8);
    k_.constants.resize((k_.constants.size() + 63) / 64 * 64);
    return {static_cast<uint32_t>(at->second), 0, bytes, true};
  }

  Operand value(std::string_view s, uint8_t bytes, bool result) {
    if (s == "_" && result) return fresh(bytes == kAnyBytes ? 8 : bytes);
    if (shared_.contains(s)) {
      if (result || bytes < 4)
        fail("the address of shared memory in place of " +
             std::string(result ? "a result" : "a narrow number"));
      return constant(kSharedBase, bytes == kAnyBytes ? 8 : bytes);
    }
    if (s.starts_with('%') || std::isalpha(static_cast<unsigned char>(s[0]))) {
      const Operand o = find_register(s);
      if (bytes == kAnyBytes ? o.bytes < min_bytes_ || o.bytes == 0 : o.bytes != bytes)
        fail("a register of another size: " + std::string(s));
      return o;
    }
    if (result) fail("a number as result");
    return constant(number(s), bytes == kAnyBytes ? 8 : bytes);
  }

  // Parses an address such as "[%rd1+16]", "[name]", "[name+8]" or "[1024]".
  Operand address(std::string_view s, int64_t& displacement) {
    if (!s.starts_with('[') || !s.ends_with(']')) fail("expected an address: " + std::string(s));
    s = trim(s.substr(1, s.size() - 2));
    if (const size_t sign = s.find_first_of("+-", 1); sign != s.npos) {
      displacement = static_cast<int64_t>(number(trim(s.substr(sign + (s[sign] == '+')))));
      s = trim(s.substr(0, sign));
    }
    if (const auto p = parameters_.find(std::string(s)); p != parameters_.end()) {
      displacement += p->second;
      return constant(0, 8);
    }
    if (shared_.contains(s)) return constant(kSharedBase, 8);
    if (std::isdigit(static_cast<unsigned char>(s[0]))) return constant(number(s), 8);
    const Operand o = find_register(s);
    if (o.bytes < 4) fail("an address of " + std::to_string(o.bytes) + " bytes");
    return o;
  }

  void take_instruction() {
    Instruction i;
    i.line = s_.line;
    std::string_view text = s_.text;
    if (text.starts_with('@')) {
      const size_t space = text.find_first_of(" \t");
      i.guarded = true;
      i.negated = text[1] == '!';
      i.guard = find_register(text.substr(1 + i.negated, space - 1 - i.negated));
      if (i.guard.bytes != 0) fail("a guard that is no predicate");
      text = trim(text.substr(space));
    }
    const size_t space = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string_view mnemonic = text.substr(0, space);
    const std::vector<std::string_view> arguments = split_list(text.substr(space));
    i.name = intern(mnemonic);
    i.first_operand = static_cast<uint32_t>(k_.operands.size());
    if (mnemonic == "bra" || mnemonic == "bra.uni") {
      i.kind = Kind::kBranch;
      branches_.emplace_back(k_.code.size(), arguments.at(0));
    } else if (mnemonic == "brx.idx" || mnemonic == "brx.idx.uni") {
      i.kind = Kind::kTable;
      k_.operands.push_back(value(arguments.at(0), 4, false));
      i.sources = 1;
      branches_.emplace_back(k_.code.size(), arguments.at(1));
    } else if (mnemonic == "ret" || mnemonic == "exit") {
      i.kind = Kind::kReturn;
    } else {
      take_operands(i, arguments);
      k_.has_wgmma |= mnemonic.starts_with("wgmma.mma_async");
    }
    k_.code.push_back(i);
  }

  static bool is_clock(std::string_view a) { return a == "%globaltimer" || a == "%clock64"; }

  // Returns the mnemonic with a suffix that tells its forms apart.
  static std::string key_of(std::string_view mnemonic, const std::vector<std::string_view>& arguments) {
    std::string key(mnemonic);
    if (mnemonic.starts_with("mbarrier.arrive.shared") && arguments.size() == 3) return key + " counted";
    if (mnemonic == "bar.sync" && arguments.size() == 1) return key + " by all";
    if (mnemonic == "max.f32" && arguments.size() == 4) return key + " of three";
    if (!mnemonic.starts_with("mov.") || arguments.size() != 2) return key;
    if (arguments[0].starts_with('{')) return key + " unpack";
    if (arguments[1].starts_with('{')) return key + " pack";
    return is_clock(arguments[1]) ? key + " " + std::string(arguments[1]) : key;
  }

  void take_operands(Instruction& i, const std::vector<std::string_view>& arguments) {
    const std::string key = key_of(*i.name, arguments);
    const std::optional<Form> form = find_form(key);
    if (!form) fail("unknown instruction " + key);
    i.execute = form->execute;
    i.converged = form->converged, i.copies = form->copies;
    i.order = form->order, i.scope = form->scope;
    i.bytes = form->bytes, i.count = form->count;
    min_bytes_ = form->bytes;
    std::vector<std::string_view> flat;
    for (const std::string_view a : arguments) {
      if (is_clock(a)) continue;
      if (!a.starts_with('{'))
        flat.push_back(a);
      else
        for (const std::string_view e : split_list(a.substr(1, a.size() - 2))) flat.push_back(e);
    }
    size_t next = 0, addresses = 0;
    bool result = true;
    for (const char c : form->pattern) {
      if (c == '=') {
        result = false;
      } else if (c == '+') {
        i.late = true;
        for (uint32_t n = 0; n < i.results; ++n)
          k_.operands.push_back(Operand(k_.operands[i.first_operand + n]));
        i.sources = i.results;
      } else {
        if (next == flat.size()) fail("too few operands");
        take_operand(i, flat[next++], c, result, addresses);
      }
    }
    if (next != flat.size()) fail("too many operands");
  }

  void take_operand(Instruction& i, std::string_view text, char c, bool result, size_t& addresses) {
    if (c == 'a') {
      k_.operands.push_back(address(text, i.displacement[addresses++]));
    } else {
      const uint8_t bytes = c == 'p' ? 0 : c == 'h' ? 2 : c == 'd' ? 8 : c == 'x' ? kAnyBytes : 4;
      k_.operands.push_back(value(text, bytes, result));
      if (c == 'n' && !k_.operands.back().constant) fail("expected a number: " + std::string(text));
    }
    ++(result ? i.results : i.sources);
  }

  Scanner& scanner_;
  const std::set<std::string, std::less<>> shared_;  // names of dynamic shared memory
  Kernel k_;
  Statement s_;
  uint8_t min_bytes_ = 0;
  std::string label_;
  std::unordered_map<std::string, uint32_t> parameters_, labels_;
  std::vector<std::unordered_map<std::string, Operand>> scopes_;
  std::unordered_map<std::string, Operand> found_;
  std::unordered_map<std::string, uint8_t> families_;
  std::map<std::pair<uint64_t, uint8_t>, size_t> constants_;
  std::unordered_map<std::string, std::vector<std::string>> targets_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

Module parse_ptx(std::string_view text) {
  Module m;
  Scanner scanner(text);
  std::set<std::string, std::less<>> shared;
  for (Statement s = scanner.next(); s.kind != Statement::Kind::kEnd; s = scanner.next()) {
    if (s.text.starts_with(".target")) {
      m.target = trim(s.text.substr(7));
    } else if (s.text.starts_with(".extern .shared")) {
      const size_t open = s.text.find('['), name = s.text.find_last_of(" \t", open);
      shared.emplace(s.text.substr(name + 1, open - name - 1));
    } else if (s.text.find(".entry") < 40) {
      Kernel k = KernelParser(scanner, shared).parse(s);
      m.kernels.emplace(k.name, std::move(k));
    } else if (!s.text.starts_with(".version") && !s.text.starts_with(".address_size") &&
               !s.text.starts_with(".visible .global") && !s.text.starts_with(".global")) {
      throw PtxError("line " + std::to_string(s.line) + ": " + std::string(s.text.substr(0, 120)) +
                     ": unknown statement");
    }
  }
  return m;
}

}  // namespace softgpu
