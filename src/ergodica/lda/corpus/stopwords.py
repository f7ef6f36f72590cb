"""English words that say nothing about a topic: what a vocabulary built from a stream leaves out."""

STOP_WORDS = frozenset(
    b"""
    about above across after afterwards again against all almost alone along already also although always am amid among
    amongst an and another any anybody anyone anything anyway anywhere are arent around as aside at away back be became
    because become becomes becoming been before beforehand behind being below beside besides between beyond both but by
    came can cannot cant come comes could couldnt despite did didnt do does doesnt doing done dont down due during each
    either else elsewhere enough etc even ever every everybody everyone everything everywhere except far few fewer for
    former formerly from further furthermore gave get gets getting give given gives giving goes going gone got had hadnt
    hardly has hasnt have havent having he hed hence her here hers herself hes him himself his how however if in include
    included includes including indeed instead into is isnt it its itself just keep kept know known largely last later
    latter least less like likely made mainly make makes making many may maybe me meanwhile merely might mine more
    moreover most mostly much must my myself namely near nearby nearly neither never nevertheless next no nobody none
    nonetheless nor not nothing now nowhere of off often on once one ones only onto or other others otherwise ought our
    ours ourselves out over overall own per perhaps quite rather really same saw say says see seem seemed seeming seems
    seen several shall she shes should shouldnt simply since so some somebody someone something sometimes somewhat
    somewhere soon still such take taken takes taking than that thats the their theirs them themselves then there
    thereafter thereby therefore these they theyre this those though through throughout thus to together too took toward
    towards under unless unlike until up upon us use used uses using usually various very via was wasnt we well went
    were werent what whatever when whenever where whereas whereby wherein wherever whether which while who whoever whole
    whom whose why will with within without wont would wouldnt yes yet you your yours yourself
    first second third fourth fifth zero two three four five six seven eight nine ten eleven twelve hundred thousand
    million billion
    """.split()
)
