"""Every module that programs may import works behind the walls, in each tier."""

import pytest

from actors.sandbox import open_sandbox
from actors.sandbox.inside.given import _LOADED, _MODULES
from actors.sandbox.inside.imports import PACKAGES
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Observed
from tests.actors.odd_programs import program

STANDARD = {
    "_strptime": "_strptime._strptime('2024-02-29', '%Y-%m-%d')[0][:3]",
    "abc": "abc.ABC.__name__",
    "argparse": "argparse.ArgumentParser().parse_args([])",
    "array": "array.array('i', [1, 2]).tobytes()",
    "ast": "ast.literal_eval('[1, {2: 3}]')",
    "asyncio": "asyncio.Queue(3).maxsize",
    "base64": "base64.b64encode(b'spade')",
    "binascii": "binascii.crc32(b'spade')",
    "bisect": "bisect.bisect([1, 3], 2)",
    "bz2": "bz2.decompress(bz2.compress(b'spade' * 99))",
    "calendar": "calendar.monthrange(2024, 2)",
    "cmath": "cmath.sqrt(-1)",
    "collections": "collections.Counter('aab').most_common()",
    "collections.abc": "issubclass(list, collections.abc.Sequence)",
    "colorsys": "colorsys.rgb_to_hsv(1, 0, 0)",
    "configparser": "configparser.ConfigParser().sections()",
    "contextlib": "contextlib.nullcontext(3).__enter__()",
    "contextvars": "contextvars.ContextVar('v', default=2).get()",
    "copy": "copy.deepcopy([[1]])",
    "csv": "next(csv.reader(['a,\"b,c\"']))",
    "ctypes": "ctypes.c_uint8(258).value",
    "dataclasses": "dataclasses.make_dataclass('P', ['x'])(3).x",
    "datetime": "datetime.date(2024, 2, 28) + datetime.timedelta(2)",
    "decimal": "decimal.Decimal('0.1') + decimal.Decimal('0.2')",
    "difflib": "difflib.get_close_matches('opne', ['open', 'shut'])",
    "email.message": "email.message.EmailMessage().as_bytes()",
    "enum": "enum.Enum('Colour', 'RED BLUE')(2).name",
    "errno": "errno.errorcode[2]",
    "fractions": "fractions.Fraction(1, 3) + fractions.Fraction(1, 6)",
    "functools": "functools.lru_cache(lambda x: x + 1)(1)",
    "graphlib": "[*graphlib.TopologicalSorter({2: [1]}).static_order()]",
    "hashlib": "[hashlib.new(name, b'spade').hexdigest() for name in ('md5', 'sha1', 'sha256', 'sha512', 'blake2b')]",
    "heapq": "heapq.nsmallest(1, [3, 2])",
    "hmac": "hmac.new(b'key', b'spade', 'sha256').hexdigest()",
    "html": "html.unescape('&lt;')",
    "inspect": "str(inspect.signature(lambda x, *, y=2: 0))",
    "io": "io.StringIO('a\\nb').readlines()",
    "ipaddress": "ipaddress.ip_network('10.0.0.0/30').num_addresses",
    "itertools": "[*itertools.pairwise('abc')]",
    "json": "json.loads(json.dumps({'a': [1.5, None]}))",
    "keyword": "keyword.iskeyword('for')",
    "locale": "locale.localeconv()['decimal_point']",
    "logging": "logging.getLogger('x').isEnabledFor(50)",
    "lzma": "lzma.decompress(lzma.compress(b'spade' * 99))",
    "math": "math.comb(5, 2)",
    "numbers": "isinstance(3, numbers.Integral)",
    "operator": "operator.itemgetter(1)('ab')",
    "os": "os.path.join('a', 'b')",
    "pickle": "pickle.loads(pickle.dumps({'a': {1}}))",
    "pprint": "pprint.pformat({'a': 1})",
    "queue": "queue.PriorityQueue().empty()",
    "random": "random.Random(3).sample(range(99), 3), 0 <= random.SystemRandom().random() < 1",
    "re": "re.findall(r'\\d+', 'a1b22')",
    "sched": "sched.scheduler(float, float).empty()",
    "secrets": "len(secrets.token_hex(4)), secrets.compare_digest('a', 'a')",
    "shlex": "shlex.split('open \"the door\"')",
    "signal": "signal.Signals(9).name",
    "socket": "socket.inet_aton('10.0.0.1')",
    "sqlite3": "sqlite3.connect(':memory:').execute('select 1 + 2').fetchall()",
    "ssl": "ssl.RAND_status()",
    "statistics": "statistics.median([1, 5, 2]), statistics.NormalDist(0, 1).cdf(0)",
    "string": "string.Template('$a').substitute(a=1)",
    "struct": "struct.pack('<I', 3)",
    "subprocess": "subprocess.list2cmdline(['a', 'b c'])",
    "sys": "sys.maxsize > 2**31",
    "textwrap": "textwrap.wrap('a b c', 3)",
    "threading": "threading.RLock().acquire(), threading.Event().wait(0)",
    "time": "time.gmtime(0).tm_year, time.monotonic() > 0",
    "timeit": "timeit.timeit('1', number=1) >= 0",
    "traceback": "traceback.format_exception_only(ValueError('no'))",
    "types": "types.SimpleNamespace(a=1).a",
    "typing": "typing.get_args(typing.Literal[1, 2])",
    "unicodedata": "unicodedata.name('é')",
    "uuid": "uuid.uuid5(uuid.NAMESPACE_DNS, 'spade'), uuid.uuid3(uuid.NAMESPACE_DNS, 'spade'), uuid.uuid4().version",
    "warnings": "warnings.filters is not None",
    "weakref": "len(weakref.WeakSet())",
    "xml.etree.ElementTree": "xml.etree.ElementTree.fromstring('<a><b/></a>')[0].tag",
    "zipfile": "zipfile.ZipFile(io.BytesIO(), 'w').namelist()",
    "zoneinfo": "[zoneinfo.ZoneInfo(key).key for key in sorted(zoneinfo.available_timezones() - {'localtime'})]",
    "zlib": "zlib.decompress(zlib.compress(b'spade' * 99))",
}
"""For each module of the standard library an expression that uses it."""

NAMED = {
    "antlr4": "antlr4.InputStream('x + 1').size",
    "latex2sympy2_extended": "latex2sympy2_extended.latex2sympy(r'\\frac{1}{2} + x')",
    "math_verify": "math_verify.verify(math_verify.parse(r'$\\frac{1}{2}$'), math_verify.parse('$0.5$'))",
    "mpmath": "mpmath.nstr(mpmath.zeta(2), 12)",
    "numpy": "numpy.linalg.inv(numpy.array([[2.0, 0], [0, 4]])).tolist()"
    ", numpy.random.default_rng(3).integers(9, size=4), numpy.random.default_rng().random() < 1"
    ", numpy.fft.fft([1, 2]).tolist()",
    "sympy": "sympy.solve('x**2 - 4', 'x'), sympy.integrate('sin(x)', sympy.Symbol('x'))",
}
"""The same of the packages."""

USER = program(
    module="import io",
    step="name, use = action.split(' ', 1)\ntext = str(eval(use, {'io': io, name.split('.')[0]: __import__(name)}))",
    result="text, 0.0, False, False, {}",
)


def used_here(module: str, use: str) -> str:
    """Return the value of an expression as text, without walls."""
    space = {}
    exec(f"import io, {module}", space)
    return str(eval(use, space))


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp", "none"])
async def test_every_module_that_programs_may_import_works(tier):
    try:
        async with open_sandbox(Limits(tier=tier, load_s=60.0, step_s=60.0)) as sandbox:
            for source, uses in ((USER, STANDARD), (f"import numpy\n{USER}", NAMED)):
                assert isinstance(await sandbox.open("e", source, 1, 1_000), Observed)
                for turn, (module, use) in enumerate(uses.items(), 1):
                    assert await sandbox.step("e", turn, f"{module} {use}") == Observed(used_here(module, use)), module
    except RunError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("package", PACKAGES)
async def test_a_program_may_import_each_package_alone(sandbox, package):
    assert await sandbox.open("e", program(module=f"import {package}"), 1, 3) == Observed("start")


def test_no_module_is_forgotten():
    assert set(NAMED) == set(PACKAGES)
    assert {*_MODULES, *_LOADED} <= set(STANDARD)
