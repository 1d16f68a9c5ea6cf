"""size_report.py finds C++ functions and holds files and functions to their limits."""

import pathlib
import subprocess
import sys
import textwrap

import scripts

SCRIPT = scripts.TOOLS / "size_report.py"


size_report = scripts.load(SCRIPT)


def functions(text: str) -> dict[str, int]:
    found = size_report.cpp_functions(textwrap.dedent(text), "x.cpp")
    return {function.name: function.lines for function in found}


def test_functions_are_found_by_their_braces():
    assert functions(
        """
        #define BRACE {
        namespace plimsoll {
        struct alignas(64) Box {
          Box(int a, std::vector<int> b = {}) : a_{a}, b_(b) {
            use(a);
          }
          int a() const { return a_; }
          int a_ = 3;
          int b_[2] = {1, 2};
        };
        enum class Kind : int { kA, kB };
        const char* kText = "}{";  // }}}
        /* { */
        const std::array kTable = {f(1), f(2)};
        template <typename T>
        auto twice(T x) -> decltype(x + x) {
          auto local = [&](int y) {
            if (y == '{') { return 1'000'000; }
            return y;
          };
          return local(x) + x;
        }
        bool operator==(const Box& x, const Box& y) noexcept(true) {
          return true;
        }
        }  // namespace plimsoll
        TEST(Box, HoldsOne) {
          EXPECT_TRUE(true);
        }
        """
    ) == {"Box": 3, "a": 1, "twice": 8, "operator==": 3, "Box.HoldsOne": 3}


def test_raw_strings_hide_braces():
    text = 'void f() {\n  g(R"(\n}}}{\n)");\n}\nvoid h() {}\n'
    assert functions(text) == {"f": 5, "h": 1}


def report(root: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True)


def write(root: pathlib.Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def long_function(lines: int) -> str:
    return "void long_one() {\n" + "  step();\n" * (lines - 2) + "}\n"


def write_short_files(root: pathlib.Path) -> None:
    for i in range(40):
        write(root, f"src/plimsoll/base/f{i}.cpp", f"int f{i}() {{\n  return {i};\n}}\n")


def test_a_function_over_the_cap_fails_unless_excepted(tmp_path):
    write_short_files(tmp_path)
    write(tmp_path, "src/plimsoll/base/long.cpp", long_function(80))
    assert report(tmp_path).returncode == 0
    write(tmp_path, "src/plimsoll/base/long.cpp", long_function(81))
    failed = report(tmp_path)
    assert failed.returncode == 1
    assert "src/plimsoll/base/long.cpp:1: long_one has 81 lines, at most 80" in failed.stdout
    exceptions = "tools/size_exceptions.txt"
    write(tmp_path, exceptions, "src/plimsoll/base/long.cpp:long_one one table of cases\n")
    assert report(tmp_path).returncode == 0
    write(tmp_path, exceptions, "src/plimsoll/base/long.cpp:long_one\n")
    assert "has no reason" in report(tmp_path).stdout


def test_files_have_the_cap_of_their_kind(tmp_path):
    write_short_files(tmp_path)
    line = "int x;\n"
    write(tmp_path, "src/plimsoll/base/a.h", line * 251)
    write(tmp_path, "src/plimsoll/base/a.cpp", line * 701)
    write(tmp_path, "tests/unit/base/a_test.cpp", line * 601)
    write(tmp_path, "tests/unit/base/b_test.cpp", line * 600)
    failed = report(tmp_path).stdout.splitlines()[-3:]
    assert failed == [
        "src/plimsoll/base/a.cpp: 701 lines, at most 700",
        "src/plimsoll/base/a.h: 251 lines, at most 250",
        "tests/unit/base/a_test.cpp: 601 lines, at most 600",
    ]


def test_too_many_long_functions_fail_by_the_percentile(tmp_path):
    write_short_files(tmp_path)
    for i in range(4):
        write(tmp_path, f"src/plimsoll/base/long{i}.cpp", long_function(41))
    assert "functions: 95th percentile 41 lines, at most 40" in report(tmp_path).stdout


def test_exceptions_are_few_and_needed(tmp_path):
    write_short_files(tmp_path)
    lines = "".join(f"src/plimsoll/base/f{i}.cpp because\n" for i in range(11))
    write(tmp_path, "tools/size_exceptions.txt", lines)
    failed = report(tmp_path)
    assert failed.returncode == 1
    assert "11 exceptions, at most 10" in failed.stdout
    assert "src/plimsoll/base/f3.cpp is not needed" in failed.stdout
