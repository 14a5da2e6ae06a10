"""The standard library's headers that a source has to include itself: for each common name, where it is declared."""

import re

# Header -> names, each with std:: before it.
DECLARED = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range
        fill fill_n find find_if find_if_not for_each generate includes is_sorted lexicographical_compare lower_bound max
        max_element merge min min_element minmax minmax_element mismatch none_of nth_element partial_sort partition remove
        remove_if replace reverse rotate search set_difference set_intersection set_union shuffle sort stable_partition
        stable_sort transform unique upper_bound""",
    "array": "array to_array",
    "atomic": "atomic atomic_flag atomic_ref memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount rotl rotr",
    "bitset": "bitset",
    "cctype": "isalnum isalpha isdigit islower isprint isspace isupper isxdigit tolower toupper",
    "charconv": "chars_format from_chars from_chars_result to_chars",
    "chrono": "chrono",
    "cmath": """ceil copysign cos erf exp exp2 expm1 fabs floor fma fmax fmin fmod hypot isfinite isinf isnan lgamma
        llround log log10 log1p log2 lround nan pow rint round sin sqrt tan tanh trunc""",
    "complex": "complex conj polar",
    "concepts": "convertible_to default_initializable derived_from floating_point integral invocable same_as",
    "condition_variable": "condition_variable cv_status",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": "int8_t int16_t int32_t int64_t intptr_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": """FILE fclose fflush fgets fopen fprintf fputc fputs fread freopen fwrite perror printf putchar puts
        snprintf vsnprintf""",
    "cstdlib": "abort aligned_alloc atexit atoi exit free getenv malloc quick_exit strtod strtol strtoull system",
    "cstring": "memchr memcmp memcpy memmove memset strchr strcmp strerror strlen strncmp strrchr strsignal strstr",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr make_exception_ptr rethrow_exception terminate",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "bind_front cref function greater hash identity invoke less minus multiplies not_fn plus ref",
    "future": "async future future_status launch packaged_task promise",
    "initializer_list": "initializer_list",
    "ios": "ios ios_base streamoff streampos streamsize",
    "iomanip": "put_time quoted setfill setprecision setw",
    "iostream": "cerr cin clog cout",
    "istream": "istream ws",
    "iterator": """advance back_inserter distance inserter istream_iterator istreambuf_iterator make_move_iterator next
        prev reverse_iterator ssize""",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "addressof make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once defer_lock lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "new": "align_val_t bad_alloc nothrow",
    "numbers": "numbers",
    "numeric": "accumulate gcd inner_product iota lcm midpoint partial_sum reduce transform_reduce",
    "optional": "make_optional nullopt nullopt_t optional",
    "ostream": "endl flush ostream",
    "queue": "priority_queue queue",
    "random": """bernoulli_distribution mt19937 mt19937_64 normal_distribution random_device uniform_int_distribution
        uniform_real_distribution""",
    "ranges": "views",
    "ratio": "micro milli nano ratio",
    "regex": "regex regex_match regex_replace regex_search smatch",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "domain_error invalid_argument length_error logic_error out_of_range overflow_error runtime_error",
    "streambuf": "streambuf",
    "string": "getline stod stof stoi stol stoll stoul stoull string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code generic_category make_error_code system_category system_error",
    "thread": "jthread this_thread thread",
    "tuple": "apply forward_as_tuple make_tuple tie tuple tuple_cat tuple_element_t tuple_size_v",
    "type_traits": """bool_constant conditional_t decay_t enable_if_t false_type integral_constant invoke_result_t
        is_arithmetic_v is_base_of_v is_const_v is_constant_evaluated is_convertible_v is_empty_v is_enum_v
        is_floating_point_v is_integral_v is_invocable_v is_same_v is_trivially_copyable_v is_void_v make_unsigned_t
        remove_const_t remove_cvref_t remove_pointer_t remove_reference_t true_type type_identity_t underlying_type_t""",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": """as_const declval exchange forward in_place index_sequence integer_sequence make_index_sequence make_pair
        move pair to_underlying unreachable""",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HEADER = {name: header for header, names in DECLARED.items() for name in names.split()}

# Names that are used without std::, and macros.
BARE = {"errno": "cerrno", "INFINITY": "cmath", "NAN": "cmath"}
BARE |= {name: HEADER[name] for name in (*DECLARED["cstdint"].split(), "memcmp", "memcpy", "memset", "size_t")}

# Name -> further headers that declare it, by the standard.
STREAMS = {"fstream", "iostream", "sstream"}
LISTS = {"algorithm", "deque", "list", "map", "random", "set", "string", "unordered_map", "unordered_set", "utility",
         "vector"}
ALSO = {
    "errc": {"charconv", "filesystem"}, "error_code": {"filesystem"}, "initializer_list": LISTS, "ios": STREAMS,
    "ios_base": STREAMS, "istream": STREAMS, "micro": {"chrono"}, "milli": {"chrono"}, "nano": {"chrono"},
    "ostream": STREAMS, "ratio": {"chrono"}, "size_t": {"cstdio", "cstdlib", "cstring"}, "endl": {"iostream"},
    "flush": {"iostream"}, "streamoff": STREAMS, "streampos": STREAMS, "streamsize": STREAMS,
}

NO_CODE = re.compile(r"""R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
INCLUDE = re.compile(r"^\s*#\s*include\s*<([\w/.]+)>", re.MULTILINE)
USE = re.compile(r"\bstd::(?:ranges::)?(\w+)")
BARE_USE = re.compile(r"(?<![\w:.>])(" + "|".join(BARE) + r")\b")


def included(text):
    """The standard headers that a text includes, the C library's by their C++ names."""
    return {f"c{name.removesuffix('.h')}" if name.endswith(".h") else name for name in INCLUDE.findall(text)}


def missing(text, headers):
    """Of each header that `text` uses a name of and `headers` lack: the header and that name."""
    code = NO_CODE.sub('""', text)
    uses = [(name, HEADER[name]) for name in USE.findall(code) if name in HEADER]
    uses += [(name, BARE[name]) for name in BARE_USE.findall(code)]
    found = {}
    for name, header in uses:
        if not {header, *ALSO.get(name, ())} & headers:
            found.setdefault(header, name)
    return sorted(found.items())
