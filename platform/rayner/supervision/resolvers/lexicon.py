"""English words that say what gender somebody is of, and common verbs: as few as pay for themselves."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


def _genders(male: str, female: str, person: str = "") -> dict[str, str]:
    listed = (("m", male), ("f", female), ("p", person))
    return {word: gender for gender, text in listed for word in text.split()}


TITLES = _genders(
    "mr sir lord king prince duke count baron father brother uncle monsieur",
    "mrs ms miss lady queen princess duchess countess madam madame aunt sister",
    "dr doctor prof professor captain capt colonel col general gen major sergeant lieutenant reverend rev "
    "judge president senator justice saint",
) | {"st": ""}
"""Many a town begins with the one without a gender."""
COMPANIES = words("motors electric mills dynamics foods")
"""What follows `General` in their names."""
FIRST_NAMES = _genders(
    "john james william george charles henry thomas robert edward joseph david michael richard peter paul "
    "frank jack tom jim bob bill sam ben harry fred arthur albert walter alfred philip daniel andrew "
    "stephen steven mark luke matthew simon martin alan adam oliver edmund hugh francis roger ralph kurt "
    "isaac jacob noah alexander louis oscar leo max victor eric brian kevin gary larry scott jeff greg "
    "donald kenneth ronald anthony patrick christopher nicholas jonathan samuel benjamin theodore "
    "sebastian basil dorian ahmed ali mohammed juan jose carlos pedro diego miguel ivan boris vladimir "
    "hans karl otto",
    "mary anne anna ann elizabeth jane emma catherine katherine kate sarah alice helen margaret martha "
    "lucy julia caroline charlotte emily ellen rose ruth grace laura clara edith florence dorothy agnes "
    "amy amelia susan nancy betty linda barbara patricia jennifer jessica maria marie lisa karen donna "
    "carol sharon michelle rebecca rachel hannah eleanor louisa sophia olivia isabella victoria diana "
    "judith joan ada lily daisy bessie dorothea rosamond isabel harriet fanny polly sally peggy becky jo "
    "beth meg heidi ingrid",
)
TIMES = words(
    "january february july september october november december monday tuesday wednesday thursday friday "
    "saturday sunday christmas easter whitsun whitsuntide pentecost michaelmas lent thanksgiving halloween "
    "passover ramadan"
)
"""Without the months that people are called, too."""
BEFORE_TIMES = words("good palm ash whit black")
NOUNS = _genders(
    "man boy father son brother husband uncle nephew grandfather gentleman lord king prince duke lad guy "
    "fellow actor waiter monk priest sir papa dad daddy squire baron widower",
    "woman girl mother daughter sister wife aunt niece grandmother lady queen princess duchess lass "
    "actress waitress nun mistress mamma mama mom maid widow governess bride",
    "person child baby friend doctor teacher student author writer poet artist president captain servant "
    "neighbour neighbor stranger patient lawyer judge officer soldier director professor nurse user "
    "reader player speaker leader member cousin parent people crowd family someone researcher scientist "
    "participant driver worker customer visitor singer musician expert witness citizen",
)
PLURALS = {
    "men": "man", "women": "woman", "children": "child", "people": "person", "gentlemen": "gentleman",
    "ladies": "lady", "wives": "wife", "feet": "foot", "teeth": "tooth", "mice": "mouse",
}  # fmt: skip
NO_NAMES = words(
    "chapter oh ah well yes no mr. but and or if when then what why how who where there here this that "
    "these those the a an it is so for in on at by to of as"
)
ADVERBS = words(
    "away again together forth today tomorrow yesterday ago later soon home apart ahead aside instead"
)
VERBS = words(
    "was were is are be been being am had has have having did do does done said says say saying went go "
    "goes going gone came come comes coming saw see sees seen looked look looks took take takes taken "
    "made make makes making knew know knows known thought think thinks gave give gives given got get gets "
    "told tell tells asked ask asks felt feel feels found find finds left leave leaves stood stand stands "
    "sat sit sits heard hear hears began begin begins kept keep keeps held hold holds brought bring "
    "brings turned turn turns put puts ran run runs seemed seem seems would could should might may must "
    "can will shall wanted want wants used use uses became become becomes cried answered replied returned "
    "lay lie lies fell fall falls met meet meets lived live lives died die dies walked walk spoke speak "
    "speaks wrote write writes written read reads called call calls let lets set sets showed show shows "
    "shown lost won win wins paid sent send sends spent rose rises led leads grew grow grows drew slept "
    "sleep sleeps ate eat eats drank sang broke breaks broken wore wears threw caught bought sold built "
    "sank rang swam flew shone shook slid stole struck swore tore woke wept rode drove chose froze forgot "
    "hid laid lit meant sought shut sprang stuck swept taught understood arose awoke bore bent bled blew "
    "burst clung crept dealt dug fed fought fled flung hung knelt leapt swung won't n't not"
)
